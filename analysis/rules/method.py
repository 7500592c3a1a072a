"""The group `method`: names of methods, the revisions that define them, and the sides that may send them."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Notification, Request
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.protocol import features
from analysis.protocol.extensions import KNOWN_METHODS, TASKS, extension_of_method, senders_of
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import FIRST_MODERN_RANK, NEWEST_RANK, REVISIONS, rank_of
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import shortened, speaks_modern
from analysis.rules.support.foreign_methods import has_possible_owner

_SCHEMA: Final = "2024-11-05 schema"
# `version/*` checks `initialize`; a probe may be sent in any revision.
_EXEMPT_METHODS: Final = frozenset({"initialize", "server/discover"})


class UnprefixedNotification(Rule):
    """A notification is sent without the prefix `notifications/`.

    **Why it matters.** SDKs do not know the name and drop the message silently, so the handshake hangs, progress is
    lost, or the call is not cancelled.

    **On the wire.** `> {"jsonrpc":"2.0","method":"initialized"}`

    **Instead.** Send the full name: `notifications/initialized`.
    """

    id = "method/unprefixed-notification"
    source = _SCHEMA

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.method not in UNPREFIXED_NOTIFICATIONS:
            return ()
        return [
            self.finding(
                context,
                f"{context.method} is not a method; {UNPREFIXED_NOTIFICATIONS[context.method]} is",
                pointer="/method",
            )
        ]


class UnknownRequest(Rule):
    """A request names a method that no revision and no known extension defines.

    **Why it matters.** It may belong to an extension that both sides know; mcpproxy then shows and times the request,
    but cannot judge it. If it is a mistake, the other side answers -32601. If one side has declared an extension that
    mcpproxy does not know, this rule is silent, except about names that begin as those of MCP do, such as `tools/lst`.

    **On the wire.** `> {"jsonrpc":"2.0","id":3,"method":"list_tools"}`

    **Instead.** Check the name: nearly all MCP methods have a group before a slash, such as `tools/list`.
    """

    id = "method/unknown-request"
    level = NOTE
    source = _SCHEMA

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the name decides
        return method not in KNOWN_METHODS

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        method = context.method
        if method.startswith("notifications/") or has_possible_owner(context):
            return ()
        text = f"no revision defines the request {shortened(method)}"
        if "/" not in method:
            text += "; MCP methods have names like tools/list"
        return [self.finding(context, text, pointer="/method")]


class UnknownNotification(Rule):
    """A notification names a method that no revision and no known extension defines.

    **Why it matters.** It may belong to an extension that both sides know; mcpproxy then shows the notification, but
    cannot judge it. If it is a mistake, the other side drops it silently. If one side has declared an extension that
    mcpproxy does not know, this rule is silent, except about names that begin as those of MCP do.

    **On the wire.** `< {"jsonrpc":"2.0","method":"notifications/tools/changed"}`

    **Instead.** Look up the name, such as `notifications/tools/list_changed`, or agree on the extension first.
    """

    id = "method/unknown-notification"
    level = NOTE
    source = _SCHEMA

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the name decides
        return method not in KNOWN_METHODS

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if has_possible_owner(context):
            return ()
        text = f"no revision defines the notification {shortened(context.method)}"
        return [self.finding(context, text, pointer="/method")]


class NotInVersion(Rule):
    """A method is used in a revision that does not have it.

    **Why it matters.** The other side may not know the method, and then refuses the request or drops the notification.

    **On the wire.** In 2025-03-26, `< {"id":4,"method":"elicitation/create",…}`; in the modern era,
    `> {"id":9,"method":"ping",…}`

    **Instead.** Use only methods of the agreed revision, or agree on another revision.
    """

    id = "method/not-in-version"
    needs_session = True
    levels = {features.ADVISORY_CAPABILITIES: WARNING}  # noqa: RUF012 - as in the base class
    # Tasks were part of a revision before they became an extension. About others, the extension's own group reports it.
    methods = frozenset(
        name for name, method in METHODS.items() if any(map(method.is_absent, range(len(REVISIONS))))
    ) | {*(TASKS.requests | TASKS.notifications)}
    source = "the schema of the revision in force; 2025-06-18 basic/lifecycle; 2026-07-28 changelog"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        yield from self._check(context)

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        yield from self._check(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        method, rank = _method(context), _rank(context)
        if not method or rank is None or method in _EXEMPT_METHODS or not _is_missing(method, rank):
            return
        text = f"{REVISIONS[rank]} does not have {method}"
        yield self.finding(context, text, pointer="/method", level=self.level_at(rank))


class WrongDirection(Rule):
    """A message has a method that its sender may only receive.

    **Why it matters.** The other side has no handler for it. Often two programs are connected the wrong way round, or a
    client uses a server library.

    **On the wire.** `< {"id":1,"method":"tools/list"}`

    **Instead.** Check which side offers the feature: servers have tools, resources and prompts; clients have roots and
    a model.
    """

    id = "method/wrong-direction"
    follows = ("id/echoed-frame",)
    source = "the schema of the revision in force; 2026-07-28 basic/patterns/index"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for both hooks
        # There is a revision in which the sender must not send the method.
        return method in KNOWN_METHODS and not all(
            like.message.sender in _senders(method, rank) for rank in range(len(REVISIONS))
        )

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        method, rank = _method(context), _rank(context)
        if not method or context.message.sender in _senders(method, rank):
            return
        if (
            context.http is not None
            and "client" in context.http.unrecorded_sides
            and context.message.frames[0].unit == "http_body"
        ):
            return  # the request may be an echo
        # `method/not-in-version` reports methods that the revision does not have.
        if rank is None or method in _EXEMPT_METHODS or not _is_missing(method, rank):
            yield self.finding(context, f"the {context.message.sender} must not send {method}", pointer="/method")

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        return self.on_request(context)


# ---- shared by the rules


def _method(context: MessageContext) -> str:
    """Returns the method of a message, or "" if no revision or known extension has a method of exactly this name."""
    message = context.message
    return message.method if isinstance(message, Request | Notification) and message.method in KNOWN_METHODS else ""


def _is_missing(method: str, rank: int) -> bool:
    """Whether a revision has a method neither itself nor by an extension."""
    core_method = METHODS.get(method)
    return extension_of_method(method, rank) is None and (core_method is None or core_method.is_absent(rank))


def _senders(method: str, rank: int | None) -> frozenset[str]:
    """Returns the sides that may send a method in a revision; if it does not have it, those of other revisions."""
    if method in METHODS:
        return METHODS[method].senders(rank) | senders_of(method, rank)
    return senders_of(method, rank) or senders_of(method, None) or frozenset({"client", "server"})


def _rank(context: MessageContext) -> int | None:
    """Returns the rank of the revision in which a message's method is judged, or None if that is uncertain."""
    session, message = context.session, context.message
    is_agreed = context.state in ("init-answered", "ready")
    if isinstance(message, Request) and message.sender == "client" and context.era == "modern":
        if message.method == "subscriptions/listen" and PROTOCOL_VERSION not in message.meta and is_agreed:
            return _handshake_rank(rank_of(session.handshake))
        # After a handshake, the request may belong to either era.
        rank = NEWEST_RANK if context.rank is None else context.rank
        return rank if speaks_modern(context) and not is_agreed and rank >= FIRST_MODERN_RANK else None
    if context.era == "modern":
        return None if session.handshake is not None else context.rank
    return None if context.state == "init-sent" else _handshake_rank(context.rank)


def _handshake_rank(rank: int | None) -> int | None:
    """Returns the rank, or None if no handshake can agree on its revision, which another rule reports."""
    return None if rank is None or rank >= FIRST_MODERN_RANK else rank
