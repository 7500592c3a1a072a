"""Rules about the versions that messages name, and how the handshake uses them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Request, Response
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.facts import text_of_error
from analysis.protocol.features import ELICITATION_IDS, ELICITATION_MODES
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import (
    DRAFT_VERSION,
    FIRST_MODERN_RANK,
    HANDSHAKE_ERA,
    REVISIONS,
    is_date,
    is_known,
    rank_of,
)
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import listed_versions, member, modern_initialize_version, shortened, version_of
from analysis.shapes.since import MEMBERS_SINCE

_LIFECYCLE: Final = "2024-11-05 basic/lifecycle"
_META_POINTER: Final = "/params/_meta/" + PROTOCOL_VERSION.replace("/", "~1")
_MAX_SEARCHED_ITEMS: Final = 100
"""The most items of a list that are searched for newer members."""


class _UnpublishedVersionRule(Rule):
    """The base class of the rules about versions that were never published."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "result":
            return method == "initialize"
        # On stdio, the version that a request names is in force for it. Over HTTP the header names a version as well.
        is_usual = not like.session.is_http and (hook == "notification" or is_known(like.revision))
        return like.message.sender == "client" and not is_usual

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check(context)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check(context)

    def _check(self, context: MessageContext) -> Iterable[Finding]:
        unpublished_versions = [
            (version, pointer) for version, pointer in _named_versions(context) if not is_known(version)
        ]
        return (
            [
                finding
                for version, pointer in unpublished_versions
                for finding in self.check_version(context, version, pointer)
            ]
            if unpublished_versions
            else ()
        )

    def check_version(self, context: MessageContext, version: str, pointer: str) -> Iterator[Finding]:
        """Check an unpublished version; `pointer` is its place in the message, empty for the header."""
        raise NotImplementedError


class Unknown(_UnpublishedVersionRule):
    """A peer names a version that is a date or a draft, but not a published revision.

    **Why it matters.** Messages are checked against the nearest older revision, or against the newest for a draft, so
    findings may report something that the version itself allows.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"2025-09-01",…}}`

    **Instead.** Name a published revision. If it is newer than this program, update the program.
    """

    id = "version/unknown"
    level = NOTE
    once = True
    source = _LIFECYCLE

    def check_version(self, context: MessageContext, version: str, pointer: str) -> Iterator[Finding]:
        if is_date(version) or _is_draft(version):
            yield self.finding(context, f"{shortened(version)} is not a published revision", pointer=pointer)


class Malformed(_UnpublishedVersionRule):
    """A peer names a version that is not a date.

    **Why it matters.** Revisions of MCP are dates. A number such as `1.0.0` is usually the version of a program or an
    SDK in the wrong place, and the other side refuses it or guesses.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"1.0.0",…}}`

    **Instead.** Send the revision in use, such as `2025-11-25`.
    """

    id = "version/malformed"
    level = WARNING
    impact = Impact.WRONG
    source = _LIFECYCLE

    def check_version(self, context: MessageContext, version: str, pointer: str) -> Iterator[Finding]:
        if not is_date(version) and not _is_draft(version):
            yield self.finding(context, f"the version {shortened(version)!r} is not a date", pointer=pointer)


class ModernInHandshake(Rule):
    """`initialize` or its result names a revision that has no handshake, even if only in `_meta`.

    **Why it matters.** Since 2026-07-28 every request names its version itself. If two peers agree on such a revision
    in a handshake, no specification describes their session.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28",…}}`

    **Instead.** Request at most 2025-11-25 in `initialize`; use newer revisions without a handshake.
    """

    id = "version/modern-in-handshake"
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({"initialize"})
    replaces = ("schema/*", "version/fallback-despite-modern", "version/mixed-on-connection")
    source = "2026-07-28 basic/versioning"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        for version, pointer in _named_versions(context):
            if pointer and (rank_of(version) or 0) >= FIRST_MODERN_RANK:
                yield self.finding(context, f"{shortened(version)} does not have initialize", pointer=pointer)
                return
        meta_version = modern_initialize_version(context.message)
        if meta_version is not None:
            # Such a request lacks all members of a handshake, which is one mistake, not several.
            yield self.finding(context, f"{shortened(meta_version)} does not have initialize", pointer="/params")

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        yield from self.on_request(context)


class ServerChoseOther(Rule):
    """The server answers `initialize` with a version other than the one that the client requested.

    **Why it matters.** This is how the sides agree on a version. A client that ignores the answer continues with the
    wrong revision.

    **On the wire.** `> …"protocolVersion":"2025-11-25"` `< …"protocolVersion":"2025-06-18"`

    **Instead.** Nothing has to change if the client supports that version; otherwise it should disconnect.
    """

    id = "version/server-chose-other"
    who = "server"
    versions = HANDSHAKE_ERA
    level = NOTE
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        requested_version, chosen_version = _requested_version(context), _chosen_version(context)
        if requested_version != chosen_version and is_known(requested_version) and is_known(chosen_version):
            text = f"the client requested {requested_version}, but the server chose {chosen_version}"
            yield self.finding(context, text, pointer="/result/protocolVersion")


class RefusedThoughSupported(Rule):
    """The server refuses a version in `initialize` although its own messages show that it supports it.

    **Why it matters.** Client and server could communicate but do not, or use an older revision than necessary.

    **On the wire.** `> …"protocolVersion":"2025-06-18"` `< {"error":{…,"data":{"supported":["2025-06-18"]}}}`

    **Instead.** Answer with the requested version whenever you support it.
    """

    id = "version/refused-though-supported"
    who = "server"
    versions = HANDSHAKE_ERA
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def __init__(self) -> None:
        super().__init__()
        # Only published versions are added, so both tables stay small.
        self._accepted_versions: dict[str, tuple[int, int]] = {}
        self._listed_versions: dict[str, int] = {}

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        requested_version, response = _requested_version(context), context.message
        if requested_version is None or not isinstance(response, Response):
            return
        versions = listed_versions(response)
        for version in versions or ():
            if is_known(version):
                self._listed_versions.setdefault(version, response.seq)
        if versions and requested_version in versions:
            yield self.finding(
                context,
                f"{shortened(requested_version)} was refused, although it is listed as supported",
                pointer="/error/data",
            )
        elif versions is not None or _is_about_version(response):
            # Any other error says nothing about the version.
            yield from self._compare_sessions(context, requested_version, "refused")

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        requested_version, chosen_version = _requested_version(context), _chosen_version(context)
        if requested_version is None or chosen_version is None:
            return
        if requested_version == chosen_version:
            if is_known(requested_version):
                self._accepted_versions.setdefault(requested_version, (context.session.number, context.message.seq))
        elif requested_version in self._listed_versions:
            text = f"{requested_version} was requested but not chosen, although it was listed as supported"
            yield self.finding(
                context, text, pointer="/result/protocolVersion", related=(self._listed_versions[requested_version],)
            )
        else:
            yield from self._compare_sessions(context, requested_version, "not chosen")

    def _compare_sessions(self, context: MessageContext, requested_version: str, rejection: str) -> Iterator[Finding]:
        session, seq = self._accepted_versions.get(requested_version, (context.session.number, 0))
        if session != context.session.number:
            yield self.finding(
                context, f"{requested_version} was {rejection}, but accepted in another session", related=(seq,)
            )


class NewerMember(Rule):
    """A message has a member that only a newer revision defines.

    **Why it matters.** This is legal, but the peer does not know the member and ignores it, so the information is lost.
    Capabilities of a newer revision are reported only as `capability/unknown`, which names each of them.

    **On the wire.** In 2025-03-26, `< {"id":2,"result":{"content":[…],"structuredContent":{…}}}`

    **Instead.** Nothing has to change if the message makes sense without the member; otherwise agree on the newer
    revision.
    """

    id = "version/newer-member"
    versions = HANDSHAKE_ERA
    level = NOTE
    once = True
    source = "the schema of the revision in force; 2025-06-18 basic/lifecycle"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        rank = like.rank
        if rank is None or rank >= FIRST_MODERN_RANK or like.era == "modern" or method not in METHODS:
            return False
        return bool(_newer_members("result" if hook == "result" else "params", method, rank))

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:
        newer_members = _newer_members("result" if hook == "result" else "params", method, like.rank or 0)
        return frozenset(
            name for path, members in newer_members for name in ([path.removesuffix("*")] if path else members)
        )

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_part(context, "params", context.body.get("method"))

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        method = context.body.get("method")
        return self._check_part(
            context, "params", UNPREFIXED_NOTIFICATIONS.get(method, method) if isinstance(method, str) else None
        )

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_part(context, "result", context.request.method if context.request is not None else None)

    def _check_part(
        self, context: MessageContext, part: Literal["params", "result"], method: object
    ) -> Iterable[Finding]:
        rank, value = context.rank, context.body.get(part)
        if rank is None or rank >= FIRST_MODERN_RANK or method not in METHODS or not isinstance(value, dict):
            return ()
        newer_members = _newer_members(part, str(method), rank)
        for path, members in newer_members:
            for owner in _objects_at(value, path):
                if not members.keys().isdisjoint(owner):
                    return self._findings(context, rank, value, newer_members)
        return ()

    def _findings(
        self, context: MessageContext, rank: int, value: dict[str, Any], newer_members: "_NewerMembers"
    ) -> Iterator[Finding]:
        part = "result" if isinstance(context.message, Response) else "params"
        for path, members in newer_members:
            for index, owner in enumerate(_objects_at(value, path)):
                name = next((name for name in members if name in owner), None)
                if name is not None:
                    owner_pointer = "/".join(["", part, *_steps(path, index)])
                    text = f"{name} belongs to {REVISIONS[members[name]]}, not to {REVISIONS[rank]}"
                    yield self.finding(context, text, pointer=f"{owner_pointer}/{name}")


def _since(type_: str, names: str) -> dict[str, int]:
    """Returns the ranks of the revisions that introduced members of a type."""
    return {name: MEMBERS_SINCE[type_, name] for name in names.split()}


_IMPLEMENTATION_MEMBERS: Final = _since("Implementation", "title description icons websiteUrl")
_CACHE_MEMBERS: Final = {"ttlMs": FIRST_MODERN_RANK, "cacheScope": FIRST_MODERN_RANK}
_RETRY_MEMBERS: Final = {"inputResponses": FIRST_MODERN_RANK, "requestState": FIRST_MODERN_RANK}
_ANY_RESULT: Final = {"": {"resultType": FIRST_MODERN_RANK}}
_URL_MEMBERS: Final = {"url": ELICITATION_MODES.first, "elicitationId": ELICITATION_IDS.first}

# Path → member → rank of the revision that introduced it. A path that ends in `*` means every item of a list.
_PARAMS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "initialize": {"clientInfo": _IMPLEMENTATION_MEMBERS},
    "tools/call": {"": {**_since("CallToolRequestParams", "task"), **_RETRY_MEMBERS}},
    "prompts/get": {"": _RETRY_MEMBERS},
    "resources/read": {"": _RETRY_MEMBERS},
    "completion/complete": {
        "": _since("CompleteRequestParams", "context"),
        "ref": _since("PromptReference", "title"),
    },
    "sampling/createMessage": {"": _since("CreateMessageRequestParams", "tools toolChoice task")},
    "elicitation/create": {
        "": {**_since("ElicitRequestFormParams", "mode"), **_URL_MEMBERS, **_since("ElicitRequestFormParams", "task")}
    },
    "notifications/progress": {"": _since("ProgressNotificationParams", "message")},
}
_RESULTS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "initialize": {"serverInfo": _IMPLEMENTATION_MEMBERS},
    "tools/list": {"": _CACHE_MEMBERS, "tools*": _since("Tool", "annotations title outputSchema icons execution")},
    "tools/call": {"": _since("CallToolResult", "structuredContent")},
    "resources/list": {"": _CACHE_MEMBERS, "resources*": _since("Resource", "title icons")},
    "resources/templates/list": {"": _CACHE_MEMBERS, "resourceTemplates*": _since("ResourceTemplate", "title icons")},
    "resources/read": {"": _CACHE_MEMBERS},
    "prompts/list": {"": _CACHE_MEMBERS, "prompts*": _since("Prompt", "title icons")},
}


_NewerMembers: TypeAlias = tuple[tuple[str, dict[str, int]], ...]


@cache
def _newer_members(part: Literal["params", "result"], method: str, rank: int) -> _NewerMembers:
    """Returns the rows of the tables for a body, reduced to the members that came after a revision."""
    tables = [_PARAMS.get(method, {})] if part == "params" else [_ANY_RESULT, _RESULTS.get(method, {})]
    rows = [(path, members) for table in tables for path, members in table.items()]
    newer_rows = [(path, {name: since for name, since in members.items() if since > rank}) for path, members in rows]
    return tuple((path, members) for path, members in newer_rows if members)


def _objects_at(value: dict[str, Any], path: str) -> Sequence[dict[str, Any]]:
    """Returns the objects at a path of the tables; empty objects replace items of other types."""
    if not path:
        return (value,)
    child = value.get(path.removesuffix("*"))
    if path.endswith("*"):
        return (
            [item if isinstance(item, dict) else {} for item in child[:_MAX_SEARCHED_ITEMS]]
            if isinstance(child, list)
            else ()
        )
    return (child,) if isinstance(child, dict) else ()


def _steps(path: str, index: int) -> list[str]:
    """Returns a path of the tables as the steps of a JSON Pointer."""
    return [path.removesuffix("*"), str(index)] if path.endswith("*") else [path] if path else []


def _named_versions(context: MessageContext) -> list[tuple[str, str]]:
    """Returns the versions that a message and its header name, without duplicates, each with its pointer."""
    message, versions = context.message, list[tuple[str, str]]()
    if isinstance(message, Response):
        chosen_version = _chosen_version(context)
        return [] if chosen_version is None else [(chosen_version, "/result/protocolVersion")]
    if message.sender != "client":
        return []
    if isinstance(message, Request):
        version = version_of(message)
        if version is not None:
            versions.append((version, "/params/protocolVersion" if message.method == "initialize" else _META_POINTER))
    if context.http is not None:
        field = context.http.fields.get(VERSION_FIELD)
        if field is not None and (not versions or field != versions[0][0]):
            versions.append((field, ""))
    return versions


def _requested_version(context: MessageContext) -> str | None:
    """Returns the version that the answered `initialize` requested, or None if it requested none."""
    return version_of(context.answered.request) if context.answered is not None else None


def _chosen_version(context: MessageContext) -> str | None:
    """Returns the version in a result of `initialize`, or None if the message is not one or names none."""
    message = context.message
    if not isinstance(message, Response) or context.answered is None or context.answered.request.method != "initialize":
        return None
    version = member(message.result, "protocolVersion")
    return version if isinstance(version, str) else None


def _is_draft(version: str) -> bool:
    return version == DRAFT_VERSION or version.startswith("DRAFT-")


def _is_about_version(response: Response) -> bool:
    return "version" in (text_of_error(response) or "")[:1000].lower()
