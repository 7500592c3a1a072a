"""Declarations of capabilities: the objects in which client and server say what they support."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Response, Side
from analysis.conversation.session import CLIENT_CAPABILITIES
from analysis.protocol import features
from analysis.protocol.capabilities import CAPABILITIES
from analysis.protocol.extensions import EXTENSIONS
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import ALL, FIRST_MODERN_RANK, MODERN_ERA, NEWEST_RANK, REVISIONS, Span
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.unchanged_content import WordsScope

_MODERN_POINTER: Final = "/params/_meta/" + CLIENT_CAPABILITIES.replace("/", "~1")
_MAX_CHECKED_NAMES: Final = 1000
"""The most names of one declaration that are checked."""
_MAX_REPORTED_NAMES: Final = 10


class _DeclarationRule(Rule):
    """A rule about the declared capabilities."""

    declarer: ClassVar[Side | None] = None
    """The side whose declarations the rule checks; None for both."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if self.declarer not in (None, like.message.sender):
            return False
        if hook == "result":
            return like.message.sender == "server" and method in ("initialize", "server/discover")
        return like.message.sender == "client" and (method == "initialize" or like.era == "modern")

    def decisive_words(self, hook: str, method: str, like: MessageContext) -> WordsScope | None:
        if hook == "result":
            return "result"
        return "envelope" if like.era == "modern" and method != "initialize" else None

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None:
            return ()
        if request.method != "initialize":
            capabilities = request.meta.get(CLIENT_CAPABILITIES)
            return (
                self.check_capabilities(context, capabilities, _MODERN_POINTER)
                if capabilities and isinstance(capabilities, dict)
                else ()
            )
        capabilities = member(request.params, "capabilities")
        return (
            self.check_capabilities(context, capabilities, "/params/capabilities")
            if isinstance(capabilities, dict)
            else ()
        )

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        capabilities = member(context.body["result"], "capabilities")
        return (
            self.check_capabilities(context, capabilities, "/result/capabilities")
            if isinstance(capabilities, dict)
            else ()
        )

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterable[Finding]:
        """Returns findings about a declaration; `pointer` is its place in the message."""
        raise NotImplementedError


class NotAnObject(_DeclarationRule):
    """A capability is declared as something other than an object.

    **Why it matters.** A typed parser refuses the whole handshake because of it; other code looks for members of the
    object and sees none.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"tools":true}}}`

    **Instead.** Send an object, even if it is empty: `"tools":{}`. Leave out what is not supported.
    """

    id = "capability/not-an-object"
    impact = Impact.CONNECTION
    replaces = ("schema/*",)
    source = "2024-11-05 schema"

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterable[Finding]:
        types = {type(value) for value in capabilities.values()}
        return () if types == {dict} else self._non_object_findings(context, capabilities, pointer)

    def _non_object_findings(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        for name, capability in CAPABILITIES[context.message.sender].items():
            value = capabilities.get(name)
            if value is not None and not isinstance(value, dict) and _is_defined(capability.revisions, context):
                text = f"the capability {name} is {_type_text(value)}, not an object"
                yield self.finding(context, text, pointer=f"{pointer}/{name}")


class FlagNotBoolean(_DeclarationRule):
    """`listChanged` or `subscribe` of a capability is not a boolean.

    **Why it matters.** Lenient parsers convert it, each in its own way: in JavaScript `"no"` is true.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"resources":{"subscribe":"yes"}}}}`

    **Instead.** Send `true` or `false`, or leave it out.
    """

    id = "capability/flag-not-boolean"
    impact = Impact.WRONG
    replaces = ("schema/*",)
    source = "2024-11-05 schema"

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        declared = CAPABILITIES[context.message.sender].values()
        for name, flag in ((capability.name, flag) for capability in declared for flag in capability.flags):
            value = member(capabilities.get(name), flag)
            if value is not None and not isinstance(value, bool):
                text = f"{name}.{flag} is {_type_text(value)}, not a boolean"
                yield self.finding(context, text, pointer=f"{pointer}/{name}/{flag}")


class UnknownCapability(_DeclarationRule):
    """A capability is declared that the revision in force does not define.

    **Why it matters.** The other side ignores it. That is legal, but a misspelt name looks the same. Capabilities that
    only another revision defines are reported here, and not as `version/newer-member` as well.

    **On the wire.** `> {"id":1,"method":"initialize","params":{…,"capabilities":{"root":{}}}}`

    **Instead.** Change nothing if it is intended. Your own capabilities belong under `experimental` or, since
    2026-07-28, under `extensions`. MCP Apps is declared there in all revisions.
    """

    id = "capability/unknown"
    level = NOTE
    once = True
    source = "2024-11-05 schema"

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        defined_capabilities = CAPABILITIES[context.message.sender]
        if capabilities.keys() <= defined_capabilities.keys() and context.rank is None:
            return
        count = 0
        for name in islice(capabilities, _MAX_CHECKED_NAMES):
            capability = defined_capabilities.get(name)
            if capability is None:
                text = f"no revision defines the {context.message.sender} capability {shortened(name)!r}"
            elif (
                context.rank is None
                or _is_defined(capability.revisions, context)
                or _is_legacy_tasks(context, name)
                or (name == "extensions" and _has_extension_of_revision(capabilities[name], context))
            ):
                continue
            else:
                span_text, rank = _span_text(capability.revisions), _defining_rank(context) or 0
                text = f"the capability {name} is {span_text}, not by {REVISIONS[rank]}"
            yield self.finding(context, text, pointer=f"{pointer}/{encode_step(shortened(name))}")
            count += 1
            if count == _MAX_REPORTED_NAMES:
                return


class ElicitationWithoutMode(_DeclarationRule):
    """A client declares elicitation, but neither of its modes.

    **Why it matters.** An empty object means forms. An object with other members says that something is supported, but
    not what, so the server must not request anything.

    **On the wire.** `> {"id":1,"method":"initialize","params":{…,"capabilities":{"elicitation":{"forms":{}}}}}`

    **Instead.** `"elicitation":{"form":{}}`, with `"url":{}` if the client can open pages.
    """

    id = "capability/elicitation-without-mode"
    who = "client"
    versions = features.ELICITATION_MODES
    impact = Impact.WRONG
    declarer = "client"
    source = "2025-11-25 client/elicitation"

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterable[Finding]:
        elicitation = capabilities.get("elicitation")
        if not isinstance(elicitation, dict) or not elicitation or "form" in elicitation or "url" in elicitation:
            return ()
        text = "elicitation is declared without form or url"
        return [self.finding(context, text, pointer=f"{pointer}/elicitation")]


class LegacyTasks(_DeclarationRule):
    """A server declares the tasks of 2025-11-25 in the modern era.

    **Why it matters.** They were removed: no client of this revision looks for that capability, and no task is ever
    created.

    **On the wire.** `< {"id":1,"result":{"resultType":"complete",…,"capabilities":{"tasks":{…}}}}`

    **Instead.** Declare the extension: `"extensions":{"io.modelcontextprotocol/tasks":{}}`.
    """

    id = "capability/legacy-tasks"
    who = "server"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.HINT
    declarer = "server"
    methods = frozenset({"server/discover"})
    source = "2026-07-28 changelog (SEP-2663)"

    def check_capabilities(
        self, context: MessageContext, capabilities: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        if "tasks" in capabilities:
            text = f"the capability tasks belongs to {REVISIONS[features.CORE_TASKS.last]}; now tasks are an extension"
            yield self.finding(context, text, pointer=f"{pointer}/tasks")


# ---- shared by the rules


def _defining_rank(context: MessageContext) -> int | None:
    """Returns the rank of the revision that defines capabilities; in the handshake era, at most that era's newest."""
    return context.rank if context.rank is None or context.era == "modern" else min(context.rank, FIRST_MODERN_RANK - 1)


def _is_defined(span: Span, context: MessageContext) -> bool:
    rank = _defining_rank(context)
    return span == ALL if rank is None else span.first <= rank <= span.last


def _has_extension_of_revision(extensions: object, context: MessageContext) -> bool:
    """Whether a known extension that can be used with the revision in force is among those that are declared."""
    if not isinstance(extensions, dict):
        return False
    known_extensions = [EXTENSIONS[name] for name in EXTENSIONS.keys() & extensions.keys()]
    return any(_is_defined(extension.revisions, context) for extension in known_extensions)


def _is_legacy_tasks(context: MessageContext, name: str) -> bool:
    """Whether `capability/legacy-tasks` reports the capability, at a higher level."""
    return name == "tasks" and isinstance(context.message, Response) and context.era == "modern"


def _span_text(span: Span) -> str:
    if span.first == span.last:
        return f"defined by {REVISIONS[span.first]}"
    until = "" if span.last == NEWEST_RANK else f" until {REVISIONS[span.last]}"
    return f"defined since {REVISIONS[span.first]}{until}"


def _type_text(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else "a number"
