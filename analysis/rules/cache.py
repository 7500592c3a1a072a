"""The group `cache`: how long a result may be kept, and for whom, since 2026-07-28."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message, Number, Side
from analysis.conversation.session import Session
from analysis.protocol.extensions import RESULT_TYPES
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING, ResponsibleSide, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.digests import json_digest
from analysis.rules.support.walks import LISTS, walks_of

_PAGED_METHODS: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list"}
)
_CACHEABLE_METHODS: Final = _PAGED_METHODS | {"server/discover", "resources/read", "skills/get"}
_HINT_MEMBERS: Final = ("ttlMs", "cacheScope")
_SCOPES: Final = ("public", "private")
_OTHER_RESULT_TYPES: Final = frozenset({"input_required"}) | RESULT_TYPES
"""Types of results that another rule checks, or whose members are not hints."""
_SOURCE: Final = "2026-07-28 server/utilities/caching"
_MAX_FRESH_RESULTS: Final = 1_000
"""The most results of one session that are remembered as fresh."""
_NS_PER_MS: Final = 1_000_000
_METHODS_BY_CHANGE: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/resources/updated": ("resources/read",),
}


class _CacheableResultRule(Rule):
    """A rule about complete results that may be kept."""

    who: ClassVar[ResponsibleSide] = "server"
    versions = MODERN_ERA
    methods = _CACHEABLE_METHODS
    sender: ClassVar[Side | None] = "server"
    era = "modern"
    source = _SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result = context.body["result"]
        if not isinstance(result, dict) or result.get("resultType") != "complete":
            return ()
        return self.check_result(context, result)

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:
        """Returns findings about a result."""
        raise NotImplementedError


class MissingHints(_CacheableResultRule):
    """A result that may be kept does not say how long, or for whom.

    **Why it matters.** A client that caches it may show outdated data; a client that does not has to request it again
    each time.

    **On the wire.** `< {"id":2,"result":{"resultType":"complete","tools":[…]}}`

    **Instead.** `"ttlMs":60000,"cacheScope":"private"`; a `ttlMs` of 0 says that the result should not be kept.
    """

    id = "cache/missing-hints"
    replaces = ("schema/*",)

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:
        missing_names = [name for name in _HINT_MEMBERS if name not in result]
        return [self.finding(context, f"the result has no {name}", pointer=f"/result/{name}") for name in missing_names]


class InvalidHints(_CacheableResultRule):
    """A hint on how long a result may be kept, or for whom, is invalid.

    **Why it matters.** Clients ignore a hint that they cannot read, or refuse the whole result.

    **On the wire.** `< …"ttlMs":"60000","cacheScope":"shared"`

    **Instead.** `ttlMs` is an integer of 0 or more, in milliseconds; `cacheScope` is `public` or `private`.
    """

    id = "cache/invalid-hints"
    impact = Impact.COST
    replaces = ("schema/*",)

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:
        findings = []
        if "ttlMs" in result and _ttl_ms(result["ttlMs"]) is None:
            text = "ttlMs is not an integer of 0 or more"
            findings.append(self.finding(context, text, pointer="/result/ttlMs"))
        if "cacheScope" in result and result["cacheScope"] not in _SCOPES:
            text = "cacheScope is neither public nor private"
            findings.append(self.finding(context, text, pointer="/result/cacheScope"))
        return findings


class HintsOnInterim(Rule):
    """An interim result says how long it may be kept.

    **Why it matters.** An interim result is a question, which only the call that received it can answer.

    **On the wire.** `< {"id":4,"result":{"resultType":"input_required","ttlMs":60000,…}}`

    **Instead.** Send hints only on the complete result.
    """

    id = "cache/hints-on-interim"
    yields_to_extensions = True
    who = "server"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.WRONG
    sender = "server"
    era = "modern"
    results = frozenset({"interim"})
    required_members = frozenset(_HINT_MEMBERS)
    source = _SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        name = next(name for name in _HINT_MEMBERS if name in context.body["result"])
        return [self.finding(context, f"an interim result has {name}", pointer=f"/result/{name}")]


class HintsElsewhere(Rule):
    """A result that clients do not cache carries hints on how long it may be kept.

    **Why it matters.** It is legal, but clients do not look there.

    **On the wire.** `< {"id":5,"result":{"resultType":"complete","content":[…],"ttlMs":60000}}` of a tool

    **Instead.** Send hints on lists and on the results of `server/discover` and `resources/read`, since 2026-07-28.
    """

    id = "cache/hints-elsewhere"
    who = "server"
    level = NOTE
    once = True
    sender = "server"
    required_members = frozenset(_HINT_MEMBERS)
    source = _SOURCE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        if method not in METHODS or method.startswith("tasks/") or like.era is None:
            return False
        return like.era == "handshake" or method not in _CACHEABLE_METHODS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result = context.body["result"]
        kind = result.get("resultType")
        if isinstance(kind, str) and kind in _OTHER_RESULT_TYPES:
            return ()
        name = "ttlMs" if "ttlMs" in result else "cacheScope"
        return [self.finding(context, f"the result of {context.method} has {name}", pointer=f"/result/{name}")]


class ScopeDiffersBetweenPages(_CacheableResultRule):
    """Two pages of one list have different `cacheScope` values.

    **Why it matters.** A user may be shown the public part of a list that was made for another user.

    **On the wire.** `< …"nextCursor":"c1","cacheScope":"public"` … `< …"cacheScope":"private"` on the next page

    **Instead.** Use one `cacheScope` for all pages. `ttlMs` may differ.
    """

    id = "cache/scope-differs-between-pages"
    impact = Impact.SECURITY
    methods = _PAGED_METHODS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        page = walks_of(context.session).record_page(context) if context.method in LISTS else None
        if page is None or page.other_scope is None:
            return ()
        scope, seq = page.other_scope
        text = f"cacheScope is not {scope}, as on an earlier page"
        return [self.finding(context, text, pointer="/result/cacheScope", related=(seq,))]


class PublicWithAuthorization(_CacheableResultRule):
    """The answer to a request with credentials may be cached for all users.

    **Why it matters.** Any cache along the way may give that copy to others, who have different credentials or none.

    **On the wire.** `Authorization: …` on the request, `< …"cacheScope":"public"`

    **Instead.** Use `private`, unless all users get the same result.
    """

    id = "cache/public-with-authorization"
    level = NOTE
    impact = Impact.SECURITY
    needs_http = True
    once = True

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:
        if result.get("cacheScope") != "public" or context.http is None or "authorization" not in context.http.fields:
            return ()
        text = "the response to a request with credentials may be cached for all users"
        return [self.finding(context, text, pointer="/result/cacheScope")]


class ChangedWhileFresh(_CacheableResultRule):
    """A result differs from the previous one, which should still be valid.

    **Why it matters.** A client that kept the first result shows outdated data. It is legal: the time is a hint.

    **On the wire.** `< …"tools":[…],"ttlMs":60000` and a second later a list with other tools

    **Instead.** Send a shorter `ttlMs`, or a notification when the result changes.
    """

    id = "cache/changed-while-fresh"
    level = NOTE
    impact = Impact.WRONG
    needs_time = True
    methods = _CACHEABLE_METHODS | frozenset(_METHODS_BY_CHANGE)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        _fresh_results(context.session).forget_results(_METHODS_BY_CHANGE.get(context.method, ()))
        return ()

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:  # noqa: ARG002 - `record` reads it from the context
        previous_seq = _fresh_results(context.session).record(context)
        if previous_seq is None:
            return ()
        text = f"the result of {context.method} has changed while the earlier one was still valid"
        return [self.finding(context, text, pointer="/result", related=(previous_seq,))]


class RefetchedWhileFresh(_CacheableResultRule):
    """A client requests again a result that it could have kept.

    **Why it matters.** It costs a round trip. It is legal: clients need not cache.

    **On the wire.** `< …"ttlMs":60000` to `tools/list`, and a second later `tools/list` again

    **Instead.** Keep the result for `ttlMs`, or until a notification says that it has changed.
    """

    id = "cache/refetched-while-fresh"
    who = "client"
    level = NOTE
    impact = Impact.COST
    needs_time = True
    once = True
    sender = None
    methods = _CACHEABLE_METHODS | frozenset(_METHODS_BY_CHANGE)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        previous_seq = _fresh_results(context.session).fresh_seq(context)
        if previous_seq is None:
            return ()
        text = f"{context.method} is requested again while its result was still valid"
        return [self.finding(context, text, related=(previous_seq,))]

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        _fresh_results(context.session).forget_results(_METHODS_BY_CHANGE.get(context.method, ()))
        return ()

    def check_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 - as above
        _fresh_results(context.session).record(context)
        return iter(())


# ---- fresh results

_KEY: Final = "fresh"
_Key = tuple[str, bytes]


class _FreshResult(NamedTuple):
    until_ns: int
    digest: bytes
    seq: int


class _FreshResults:
    """Results that may still be kept. The rules share them: only the first rule that passes a result on records it."""

    def __init__(self) -> None:
        self._results: OrderedDict[_Key, _FreshResult] = OrderedDict()
        self._last: tuple[Message, int | None] | None = None

    def fresh_seq(self, context: MessageContext) -> int | None:
        """Returns the number of the message with the still valid result that a request asks for again, or None."""
        key = _request_key(context) if self._results else None
        fresh_result = self._results.get(key) if key is not None else None
        return fresh_result.seq if fresh_result is not None and context.message.t_ns < fresh_result.until_ns else None

    def record(self, context: MessageContext) -> int | None:
        """Record a complete result; returns the number of an earlier, different, still valid result, or None."""
        if self._last is None or self._last[0] is not context.message:
            self._last = context.message, self._store_result(context)
        return self._last[1]

    def forget_results(self, methods: tuple[str, ...]) -> None:
        """Forget the results of some methods."""
        if self._results and methods:
            for key in [key for key in self._results if key[0] in methods]:
                del self._results[key]

    def _store_result(self, context: MessageContext) -> int | None:
        result, request = context.body["result"], context.request
        ttl = _ttl_ms(result.get("ttlMs"))
        if request is None or (not ttl and not self._results):
            return None
        key = _request_key(context)
        previous = self._results.pop(key, None) if key is not None else None
        if key is None or (not ttl and previous is None):
            return None
        digest = json_digest({name: value for name, value in result.items() if name not in (*_HINT_MEMBERS, "_meta")})
        if digest is None:
            return None
        if ttl:
            self._results[key] = _FreshResult(context.message.t_ns + int(ttl * _NS_PER_MS), digest, context.message.seq)
            if len(self._results) > _MAX_FRESH_RESULTS:
                self._results.popitem(last=False)
        has_changed = previous is not None and previous.digest != digest and context.message.t_ns < previous.until_ns
        return previous.seq if has_changed and previous is not None else None


def _fresh_results(session: Session) -> _FreshResults:
    fresh: _FreshResults | None = session.memory.get(_KEY)
    if fresh is None:
        fresh = session.memory[_KEY] = _FreshResults()
    return fresh


def _request_key(context: MessageContext) -> _Key | None:
    """Returns a key that equal requests share, made of method, params and credentials; None if there is none."""
    request = context.request
    if request is None:
        return None
    params = request.params
    params_without_meta = (
        {name: value for name, value in params.items() if name != "_meta"} if isinstance(params, dict) else {}
    )
    credentials = context.http.fields.get("authorization", "") if context.http is not None else ""
    digest = json_digest([params_without_meta, credentials])
    return None if digest is None else (request.method, digest)


def _ttl_ms(value: object) -> float | None:
    """Returns a `ttlMs` in milliseconds, or None if the value is not an integer of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    if isinstance(value, float) and not isinstance(value, Number) and not value.is_integer():
        return None
    if isinstance(value, Number) and not (value.token.isdecimal() or value.is_integer()):
        return None
    return min(value, 1 << 50)
