"""The group `version`, its first half: the versions that are named, and what the handshake makes of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Request, Response
from analysis.conversation.session import PROTOCOL_VERSION, Seen
from analysis.protocol.methods import METHODS, UNPREFIXED
from analysis.protocol.revisions import DRAFT, HANDSHAKE_ERA, MODERN, REVISIONS, is_date, is_known, rank_of
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import listed, member, modern_initialize, short, version_of

_LIFECYCLE: Final = "2024-11-05 basic/lifecycle"
_META_POINTER: Final = "/params/_meta/" + PROTOCOL_VERSION.replace("/", "~1")
_ITEMS: Final = 100
"""Items of a list that are looked at for newer members."""


class _Unpublished(Rule):
    """What the rules have in common about versions that are named and were never published."""

    def concerns(self, hook: str, method: str, like: Seen) -> bool:
        if hook == "result":
            return method == "initialize"
        # On a pipe, what a request names is what is in force for it. Over HTTP the header names one, too.
        is_usual = not like.session.is_http and (hook == "notification" or is_known(like.revision))
        return like.message.sender == "client" and not is_usual

    def on_request(self, seen: Seen) -> Iterable[Finding]:
        return self._look(seen)

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        return self._look(seen)

    def on_result(self, seen: Seen) -> Iterable[Finding]:
        return self._look(seen)

    def _look(self, seen: Seen) -> Iterable[Finding]:
        odd = [(version, pointer) for version, pointer in _named(seen) if not is_known(version)]
        return [finding for version, pointer in odd for finding in self.look(seen, version, pointer)] if odd else ()

    def look(self, seen: Seen, version: str, pointer: str) -> Iterator[Finding]:
        """What is wrong with a version that is named at a place."""
        raise NotImplementedError


class Unknown(_Unpublished):
    """A peer names a version that looks like a date, or is called a draft, but is not a published revision.

    **Why it matters.** It is checked as the nearest older revision, and drafts as the newest: findings may be about
    something that the version itself permits.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"2025-09-01",…}}`

    **Instead.** Name a published revision, or update this program if there is a newer one.
    """

    id = "version/unknown"
    level = NOTE
    once = True
    source = _LIFECYCLE

    def look(self, seen: Seen, version: str, pointer: str) -> Iterator[Finding]:
        if is_date(version) or _is_draft(version):
            yield self.finding(seen, f"{short(version)} is not a published revision", pointer=pointer)


class Malformed(_Unpublished):
    """A peer names a version that is not a date.

    **Why it matters.** Revisions of MCP are dates. A number such as `1.0.0` is usually that of a program or of an SDK
    in the wrong place, and the other side refuses it or guesses.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"1.0.0",…}}`

    **Instead.** Send the revision that is in use, such as `2025-11-25`.
    """

    id = "version/malformed"
    level = WARNING
    impact = Impact.WRONG
    source = _LIFECYCLE

    def look(self, seen: Seen, version: str, pointer: str) -> Iterator[Finding]:
        if not is_date(version) and not _is_draft(version):
            yield self.finding(seen, f"the version {short(version)!r} is not a date", pointer=pointer)


class ModernInHandshake(Rule):
    """`initialize` or its result names a revision that has no handshake, even if only in `_meta`.

    **Why it matters.** Since 2026-07-28 every request names its version itself. Two peers that agree on such a revision
    by a handshake have agreed on something that no specification describes.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28",…}}`

    **Instead.** Request 2025-11-25 at most in `initialize`; use newer revisions without it.
    """

    id = "version/modern-in-handshake"
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({"initialize"})
    replaces = ("schema/*", "version/fallback-despite-modern", "version/mixed-on-connection")
    source = "2026-07-28 basic/versioning"

    def on_request(self, seen: Seen) -> Iterator[Finding]:
        for version, pointer in _named(seen):
            if pointer and (rank_of(version) or 0) >= MODERN:
                yield self.finding(seen, f"{short(version)} has no initialize", pointer=pointer)
                return
        own = modern_initialize(seen.message)
        if own is not None:
            # All that a handshake needs is missing then, which is one mistake and not several.
            yield self.finding(seen, f"{short(own)} has no initialize", pointer="/params")

    def on_result(self, seen: Seen) -> Iterator[Finding]:
        yield from self.on_request(seen)


class ServerChoseOther(Rule):
    """The server answers `initialize` with a version other than the one that the client requested.

    **Why it matters.** This is how a version is agreed on. A client that ignores the answer continues in the wrong
    revision.

    **On the wire.** `> …"protocolVersion":"2025-11-25"` `< …"protocolVersion":"2025-06-18"`

    **Instead.** Nothing, if the client speaks that version too; otherwise it should disconnect.
    """

    id = "version/server-chose-other"
    who = "server"
    versions = HANDSHAKE_ERA
    level = NOTE
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def on_result(self, seen: Seen) -> Iterator[Finding]:
        asked, given = _requested(seen), _given(seen)
        if asked != given and is_known(asked) and is_known(given):
            text = f"the client asked for {asked}, and the server chose {given}"
            yield self.finding(seen, text, pointer="/result/protocolVersion")


class RefusedThoughSupported(Rule):
    """The server refuses a version in `initialize` that it supports, as its own messages show.

    **Why it matters.** Client and server could communicate, and do not, or not as well as they might.

    **On the wire.** `> …"protocolVersion":"2025-06-18"` `< {"error":{…,"data":{"supported":["2025-06-18"]}}}`

    **Instead.** Answer with the requested version whenever it is supported.
    """

    id = "version/refused-though-supported"
    who = "server"
    versions = HANDSHAKE_ERA
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def __init__(self) -> None:
        super().__init__()
        # Only published versions enter, so both stay small.
        self._accepted: dict[str, tuple[int, int]] = {}
        self._listed: dict[str, int] = {}

    def on_error(self, seen: Seen) -> Iterator[Finding]:
        asked, response = _requested(seen), seen.message
        if asked is None or not isinstance(response, Response):
            return
        versions = listed(response)
        for version in versions or ():
            if is_known(version):
                self._listed.setdefault(version, response.seq)
        if versions and asked in versions:
            yield self.finding(
                seen, f"{short(asked)} was refused, although it is listed as supported", pointer="/error/data"
            )
        elif versions is not None or _is_about_version(response):
            # Any other error is no word about the version.
            yield from self._elsewhere(seen, asked, "refused")

    def on_result(self, seen: Seen) -> Iterator[Finding]:
        asked, given = _requested(seen), _given(seen)
        if asked is None or given is None:
            return
        if asked == given:
            if is_known(asked):
                self._accepted.setdefault(asked, (seen.session.number, seen.message.seq))
        elif asked in self._listed:
            text = f"{asked} was requested and not chosen, although it was listed as supported"
            yield self.finding(seen, text, pointer="/result/protocolVersion", related=(self._listed[asked],))
        else:
            yield from self._elsewhere(seen, asked, "not given")

    def _elsewhere(self, seen: Seen, asked: str, how: str) -> Iterator[Finding]:
        session, seq = self._accepted.get(asked, (seen.session.number, 0))
        if session != seen.session.number:
            yield self.finding(seen, f"{asked} was {how}, and accepted in another session", related=(seq,))


class NewerMember(Rule):
    """A message has a member that only a newer revision defines.

    **Why it matters.** The peer does not know it and ignores it, so the information is lost. That is legal.
    Capabilities of a newer revision are reported only as `capability/unknown`, which names each of them.

    **On the wire.** under 2025-03-26 `< {"id":2,"result":{"content":[…],"structuredContent":{…}}}`

    **Instead.** Nothing, if the message makes sense without it; otherwise agree on the newer revision.
    """

    id = "version/newer-member"
    versions = HANDSHAKE_ERA
    level = NOTE
    once = True
    source = "the schema of the revision in force; 2025-06-18 basic/lifecycle"

    def concerns(self, hook: str, method: str, like: Seen) -> bool:
        rank = like.rank
        if rank is None or rank >= MODERN or like.era == "modern" or method not in METHODS:
            return False
        return bool(_newer("result" if hook == "result" else "params", method, rank))

    def members_of(self, hook: str, method: str, like: Seen) -> frozenset[str]:
        newer = _newer("result" if hook == "result" else "params", method, like.rank or 0)
        return frozenset(name for path, members in newer for name in ([path.removesuffix("*")] if path else members))

    def on_request(self, seen: Seen) -> Iterable[Finding]:
        return self._look(seen, "params", seen.body.get("method"))

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        method = seen.body.get("method")
        return self._look(seen, "params", UNPREFIXED.get(method, method) if isinstance(method, str) else None)

    def on_result(self, seen: Seen) -> Iterable[Finding]:
        return self._look(seen, "result", seen.request.method if seen.request is not None else None)

    def _look(self, seen: Seen, part: Literal["params", "result"], method: object) -> Iterable[Finding]:
        rank, value = seen.rank, seen.body.get(part)
        if rank is None or rank >= MODERN or method not in METHODS or not isinstance(value, dict):
            return ()
        newer = _newer(part, str(method), rank)
        for path, members in newer:
            for place in _places(value, path):
                if not members.keys().isdisjoint(place):
                    return self._findings(seen, rank, value, newer)
        return ()

    def _findings(self, seen: Seen, rank: int, value: dict[str, Any], newer: "_Newer") -> Iterator[Finding]:
        part = "result" if isinstance(seen.message, Response) else "params"
        for path, members in newer:
            for index, place in enumerate(_places(value, path)):
                name = next((name for name in members if name in place), None)
                if name is not None:
                    where = "/".join(["", part, *_steps(path, index)])
                    text = f"{name} is of {REVISIONS[members[name]]}, not of {REVISIONS[rank]}"
                    yield self.finding(seen, text, pointer=f"{where}/{name}")


_ABOUT_SELF: Final = {"title": 2, "description": 3, "icons": 3, "websiteUrl": 3}
_LIST: Final = {"ttlMs": 4, "cacheScope": 4}
_AGAIN: Final = {"inputResponses": 4, "requestState": 4}
_ANY_RESULT: Final = {"": {"resultType": 4}}

# Where → member → rank of the revision that brought it. A path ends in `*` where every item of a list is meant.
_PARAMS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "initialize": {"clientInfo": _ABOUT_SELF},
    "tools/call": {"": {"task": 3, **_AGAIN}},
    "prompts/get": {"": _AGAIN},
    "resources/read": {"": _AGAIN},
    "completion/complete": {"": {"context": 2}, "ref": {"title": 2}},
    "sampling/createMessage": {"": {"tools": 3, "toolChoice": 3, "task": 3}},
    "elicitation/create": {"": {"mode": 3, "url": 3, "elicitationId": 3, "task": 3}},
    "notifications/progress": {"": {"message": 1}},
}
_RESULTS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "initialize": {"serverInfo": _ABOUT_SELF},
    "tools/list": {
        "": _LIST,
        "tools*": {"annotations": 1, "title": 2, "outputSchema": 2, "icons": 3, "execution": 3},
    },
    "tools/call": {"": {"structuredContent": 2}},
    "resources/list": {"": _LIST, "resources*": {"title": 2, "icons": 3}},
    "resources/templates/list": {"": _LIST, "resourceTemplates*": {"title": 2, "icons": 3}},
    "resources/read": {"": _LIST},
    "prompts/list": {"": _LIST, "prompts*": {"title": 2, "icons": 3}},
}


_Newer: TypeAlias = tuple[tuple[str, dict[str, int]], ...]


@cache
def _newer(part: Literal["params", "result"], method: str, rank: int) -> _Newer:
    """The rows for a body, with those members alone that came after a revision."""
    tables = [_PARAMS.get(method, {})] if part == "params" else [_ANY_RESULT, _RESULTS.get(method, {})]
    rows = [(path, members) for table in tables for path, members in table.items()]
    newer = [(path, {name: since for name, since in members.items() if since > rank}) for path, members in rows]
    return tuple((path, members) for path, members in newer if members)


def _places(value: dict[str, Any], path: str) -> Sequence[dict[str, Any]]:
    """The objects at a path of the tables; nothing stands in what is none."""
    if not path:
        return (value,)
    inner = value.get(path.removesuffix("*"))
    if path.endswith("*"):
        return [item if isinstance(item, dict) else {} for item in inner[:_ITEMS]] if isinstance(inner, list) else ()
    return (inner,) if isinstance(inner, dict) else ()


def _steps(path: str, index: int) -> list[str]:
    """A path of the tables as parts of a JSON Pointer."""
    return [path.removesuffix("*"), str(index)] if path.endswith("*") else [path] if path else []


def _named(seen: Seen) -> list[tuple[str, str]]:
    """The versions that a message and its header name, each once, with the place."""
    message, versions = seen.message, list[tuple[str, str]]()
    if isinstance(message, Response):
        given = _given(seen)
        return [] if given is None else [(given, "/result/protocolVersion")]
    if message.sender != "client":
        return []
    if isinstance(message, Request):
        version = version_of(message)
        if version is not None:
            versions.append((version, "/params/protocolVersion" if message.method == "initialize" else _META_POINTER))
    if seen.http is not None:
        field = seen.http.fields.get(VERSION_FIELD)
        if field is not None and (not versions or field != versions[0][0]):
            versions.append((field, ""))
    return versions


def _requested(seen: Seen) -> str | None:
    """The version that an `initialize` asked for, of which this is the answer."""
    return version_of(seen.exchange.request) if seen.exchange is not None else None


def _given(seen: Seen) -> str | None:
    """The version in a result of `initialize`."""
    message = seen.message
    if not isinstance(message, Response) or seen.exchange is None or seen.exchange.request.method != "initialize":
        return None
    given = member(message.result, "protocolVersion")
    return given if isinstance(given, str) else None


def _is_draft(version: str) -> bool:
    return version == DRAFT or version.startswith("DRAFT-")


def _is_about_version(response: Response) -> bool:
    text = member(response.error, "message")
    return isinstance(text, str) and "version" in text[:1000].lower()
