"""Errors about tools and prompts by name, which need to know what the server has listed."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from analysis.finding import Finding
from analysis.message import Request
from analysis.revisions import since
from analysis.rules import NOTE, WARNING, Rule
from analysis.rules.error_codes import NOT_FOUND, PARAMS, code_of, has_envelope, params_of, shown
from analysis.session import Seen

MOST: Final = 10_000
"""Names of one list that are remembered; a longer one is treated as not known."""


class Listing:
    """The names in the list that a server gave last, over all its pages; each with the arguments that it requires."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        self._since: int | None = None
        self._epoch = 0
        self._cursor: object = None
        self._is_open = False

    def take(self, seen: Seen, member: str) -> None:
        """A result of the list came."""
        result, request = seen.body.get("result"), seen.request
        cursor = params_of(request).get("cursor")
        items = result.get(member) if isinstance(result, dict) else None
        if cursor is None:
            self.forget()
            self._is_open = True
        elif not self._is_open or cursor != self._cursor:
            return
        if not isinstance(items, list) or len(self._names) + len(items) > MOST:
            self.forget()
            return
        self._names.update((item["name"], _required(item)) for item in items if _is_named(item))
        self._cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if self._cursor is None:
            self._since, self._epoch, self._is_open = seen.message.seq, seen.session.epoch, False

    def forget(self) -> None:
        """It does not hold any more."""
        self._names, self._since, self._is_open = {}, None, False

    def is_known(self, request: Request, seen: Seen) -> bool:
        """Whether all of it had come before a request was sent, and it still holds."""
        return self._since is not None and self._since < request.seq and self._epoch == seen.session.epoch

    def __contains__(self, name: str) -> bool:
        """Whether a name is in it."""
        return name in self._names

    def required(self, name: str) -> tuple[str, ...]:
        """The arguments that a prompt cannot do without."""
        return self._names.get(name, ())


class _Listed(Rule):
    """A rule that remembers a list."""

    lists: ClassVar[str] = "tools"
    """The member of the list's result; the methods are named after it."""

    def listing(self, seen: Seen) -> Listing:
        """What is known of the list."""
        kept: Listing = self.memory(seen.session, Listing)
        return kept

    def on_result(self, seen: Seen) -> Iterable[Finding]:
        if seen.request is not None and seen.request.method == f"{self.lists}/list":
            self.listing(seen).take(seen, self.lists)
        return ()

    def on_notification(self, seen: Seen) -> Iterator[Finding]:
        if seen.message.sender == "server":
            self.listing(seen).forget()
        return iter(())


class ToolInputAsProtocolError(_Listed):
    """Arguments that a tool does not take are refused as an error of the protocol.

    **Why it matters.** Hosts show errors of the protocol to nobody, or to their user; what stands in a result goes to
    the model, which can mend its arguments and call again.

    **On the wire.** `> {"id":6,"method":"tools/call","params":{"name":"add","arguments":{"a":"x"}}}`
    `< {"id":6,"error":{"code":-32602,"message":"a: expected a number"}}`

    **Instead.** `< {"id":6,"result":{"content":[{"type":"text","text":"a: expected a number"}],"isError":true}}`.
    -32602 is for tools that do not exist, and for calls that are no calls.
    """

    id = "error/tool-input-as-protocol-error"
    who = "server"
    level = WARNING
    versions = since("2025-11-25")
    needs_lists = True
    methods = frozenset({"tools/list", "tools/call", "notifications/tools/list_changed"})
    source = "2025-11-25 server/tools"

    def on_error(self, seen: Seen) -> Iterator[Finding]:
        request = seen.request
        if request is None or request.method != "tools/call" or code_of(seen) != PARAMS or not _is_call(request):
            return
        if seen.era == "modern" and not has_envelope(request):
            return
        listing, name = self.listing(seen), params_of(request)["name"]
        if listing.is_known(request, seen) and name in listing:
            text = "a call of a listed tool is refused with -32602: the model never learns what to change"
            yield self.finding(seen, text, pointer="/error/code", related=(request.seq,))


class UnknownToolAsResult(_Listed):
    """A call of a tool that does not exist gets a result that says so.

    **Why it matters.** A client cannot tell a tool that failed from one that is gone, and keeps offering it.

    **On the wire.** `> {"id":6,"method":"tools/call","params":{"name":"gone"}}`
    `< {"id":6,"result":{"content":[…],"isError":true}}`

    **Instead.** `< {"id":6,"error":{"code":-32602,"message":"Unknown tool: gone"}}`. Widely used SDKs do it the other
    way.
    """

    id = "error/unknown-tool-as-result"
    who = "server"
    level = NOTE
    needs_lists = True
    methods = frozenset({"tools/list", "tools/call", "notifications/tools/list_changed"})
    source = "2024-11-05 server/tools"

    def on_result(self, seen: Seen) -> Iterable[Finding]:
        request, result = seen.request, seen.body.get("result")
        if request is None or request.method != "tools/call":
            return super().on_result(seen)
        if not isinstance(result, dict) or result.get("isError") is not True:
            return ()
        return self._failed(seen, request)

    def _failed(self, seen: Seen, request: Request) -> Iterator[Finding]:
        name, listing = params_of(request).get("name"), self.listing(seen)
        if not isinstance(name, str) or name in listing:
            return
        if listing.is_known(request, seen):
            text = "a call of a tool that is not listed gets a result with isError, not -32602"
            yield self.finding(seen, text, pointer="/result/isError", related=(request.seq,))


class PromptArgsCode(_Listed):
    """A prompt that does not exist, or lacks an argument, is refused with a code other than -32602.

    **Why it matters.** By -32602 the caller knows that its own params are at fault, and which to ask its user for.

    **On the wire.** `> {"id":4,"method":"prompts/get","params":{"name":"gone"}}` `< {"id":4,"error":{"code":-32603,…}}`

    **Instead.** -32602, with a message that names the prompt or the argument.
    """

    id = "error/prompt-args-code"
    who = "server"
    level = NOTE
    methods = frozenset({"prompts/list", "prompts/get", "completion/complete", "notifications/prompts/list_changed"})
    lists = "prompts"
    source = "2024-11-05 server/prompts; 2025-03-26 server/utilities/completion"

    def on_error(self, seen: Seen) -> Iterator[Finding]:
        code, request = code_of(seen), seen.request
        if code is None or code == PARAMS or request is None or request.method == "prompts/list":
            return
        params, listing = params_of(request), self.listing(seen)
        if request.method == "completion/complete":
            reference = params.get("ref")
            if code == NOT_FOUND or not isinstance(reference, dict) or reference.get("type") != "ref/prompt":
                return  # it has no completions at all, or it is about something else
            name, missing = reference.get("name"), False
        else:
            name, given = params.get("name"), params.get("arguments")
            told = given if isinstance(given, dict) else {}
            missing = isinstance(name, str) and any(one not in told for one in listing.required(name))
        if not isinstance(name, str) or not listing.is_known(request, seen):
            return
        if name not in listing or missing:
            what = "that lacks a required argument" if missing else "that is not listed"
            text = f"a prompt {what} is refused with {shown(code)}, not -32602"
            yield self.finding(seen, text, pointer="/error/code", related=(request.seq,))


# ---- what the rules ask


def _is_named(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _required(item: dict[str, Any]) -> tuple[str, ...]:
    arguments = item.get("arguments")
    found = arguments[:MOST] if isinstance(arguments, list) else []
    return tuple(one["name"] for one in found if _is_named(one) and one.get("required") is True)


def _is_call(request: Request) -> bool:
    """Whether the params of a call have the shape of a call; retries with more input are judged by other things."""
    params = params_of(request)
    shapes = (("arguments", dict), ("_meta", dict), ("task", dict))
    if not isinstance(params.get("name"), str) or "requestState" in params or "inputResponses" in params:
        return False
    if not all(isinstance(params[name], shape) for name, shape in shapes if name in params):
        return False
    token = request.meta.get("progressToken", "")
    return isinstance(token, str) or type(token) is int
