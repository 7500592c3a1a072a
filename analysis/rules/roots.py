"""The group `roots`: folders in which a server may work, as its client lists them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.session import Session
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import NOTE, RACE_NS, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS
from analysis.rules.support.questions import ClientReplyRule

MAX_CHECKED_ROOTS: Final = 1_000
"""The most roots of one result that are checked."""

_LIST: Final = "roots/list"
_CHANGED: Final = "notifications/roots/list_changed"


class _RootsRule(ClientReplyRule):
    """The base class of the rules about lists of roots."""

    about = _LIST
    methods = frozenset({_LIST, *INTERIM_METHODS})
    source = "2024-11-05 client/roots"


class NotFile(_RootsRule):
    """The URI of a root does not begin with `file://`.

    **Why it matters.** Servers extract the path of a folder from the URI. From other URIs they get no path, or a wrong
    one.

    **On the wire.** `< {"id":1,"method":"roots/list"}` `> {"id":1,"result":{"roots":[{"uri":"/home/me/project"}]}}`

    **Instead.** `file:///home/me/project`
    """

    id = "roots/not-file"
    replaces = ("schema/uri",)

    def check_reply(
        self, context: MessageContext, _question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        text = "the URI of a root does not begin with file://"
        yield from self.capped(
            self.finding(context, text, pointer=f"{pointer}/roots/{index}/uri")
            for index, uri in enumerate(_uris(reply))
            if isinstance(uri, str) and not uri.startswith("file://")
        )


class Duplicate(_RootsRule):
    """The same root is listed twice.

    **Why it matters.** It does no harm, but servers that search all roots search this one twice.

    **On the wire.** `> {"id":1,"result":{"roots":[{"uri":"file:///a"},{"uri":"file:///a"}]}}`

    **Instead.** List each root once.
    """

    id = "roots/duplicate"
    level = NOTE
    impact = Impact.COST

    def check_reply(
        self, context: MessageContext, _question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        seen: set[str] = set()
        for index, uri in enumerate(_uris(reply)):
            if isinstance(uri, str) and uri in seen:
                yield self.finding(context, "a root is listed twice", pointer=f"{pointer}/roots/{index}/uri")
                return
            if isinstance(uri, str):
                seen.add(uri)


class _KnownRoots:
    """The last known roots of a client."""

    def __init__(self) -> None:
        self.uris: frozenset[str] | None = None
        self.seq = 0
        self.epoch = 0
        self.announced_changes = 0
        """How many changes the client has announced."""
        self.changes_at_last_list = 0
        """How many changes it had announced when it last listed its roots."""


class ChangedSilently(Rule):
    """The roots have changed, but the client has not sent a notification about it.

    **Why it matters.** The client declared that it would. A server that has requested the roots once keeps working in
    folders that it should no longer use.

    **On the wire.** `> {"id":1,"result":{"roots":[{"uri":"file:///a"}]}}` and later
    `> {"id":2,"result":{"roots":[{"uri":"file:///b"}]}}` with no `notifications/roots/list_changed` in between

    **Instead.** Send the notification as soon as the roots change, or do not declare `roots.listChanged`.
    """

    id = "roots/changed-silently"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    impact = Impact.SECURITY
    methods = frozenset({_LIST, _CHANGED})
    sender = "client"
    source = "2024-11-05 client/roots"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        known_roots: _KnownRoots = self.state_for(context.session, _KnownRoots)
        known_roots.announced_changes += 1
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        session, roots = context.session, member(context.body["result"], "roots")
        if not isinstance(roots, list) or len(roots) > MAX_CHECKED_ROOTS:
            return ()
        known_roots: _KnownRoots = self.state_for(session, _KnownRoots)
        uris = frozenset(uri for uri in _uris({"roots": roots}) if isinstance(uri, str))
        previous_uris, previous_seq, previous_epoch = known_roots.uris, known_roots.seq, known_roots.epoch
        is_announced = known_roots.announced_changes != known_roots.changes_at_last_list
        known_roots.uris, known_roots.seq, known_roots.epoch, known_roots.changes_at_last_list = (
            uris,
            context.message.seq,
            session.epoch,
            known_roots.announced_changes,
        )
        if (
            previous_uris is None
            or previous_uris == uris
            or is_announced
            or previous_epoch != session.epoch
            or not _declares_list_changed(session)
        ):
            return ()
        text = "the roots have changed without a notification"
        finding = self.finding(context, text, pointer="/result/roots", related=(previous_seq,))
        if not session.is_http:
            return [finding]
        changes = known_roots.announced_changes
        # The notification is a separate POST, which may arrive later.
        self.check_later(
            context.message.t_ns + RACE_NS, lambda: [finding] if _is_unannounced(self, session, changes) else ()
        )
        return ()


# ---- shared by the rules


def _uris(reply: dict[str, Any]) -> list[Any]:
    roots = reply.get("roots")
    return [member(root, "uri") for root in roots[:MAX_CHECKED_ROOTS]] if isinstance(roots, list) else []


def _declares_list_changed(session: Session) -> bool:
    return member(member(session.client_capabilities, "roots"), "listChanged") is True


def _is_unannounced(rule: Rule, session: Session, changes: int) -> bool:
    known_roots: _KnownRoots | None = session.memory.get(rule.id)
    return known_roots is not None and known_roots.announced_changes == changes
