"""The request that a cancellation names, and whether it can be cancelled."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import IdState, MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Side, converted_id, id_of, other_side
from analysis.protocol import features
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA
from analysis.rules.base import RACE_NS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.tokens import is_of_session

CANCELLED: Final = "notifications/cancelled"
PAGE: Final = "2024-11-05 basic/utilities/cancellation"
MAX_REMEMBERED_REQUESTS: Final = 10_000
"""The most requests of one session that a rule remembers."""

_POINTER: Final = "/params/requestId"
# Enum members are slow to look up.
_TASK_OUTCOME: Final = Outcome.TASK


class NamedRequest(NamedTuple):
    """A request whose id a cancellation names."""

    seq: int
    key: RequestKey


class CancellationRule(Rule):
    """A rule about the request that a cancellation names."""

    methods = frozenset({CANCELLED})
    source = PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        id_ = named_id(context)
        return () if id_ is None else self.check_cancellation(context, id_)

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        """Returns findings about a cancellation that names `id_`."""
        raise NotImplementedError


class UnknownRequest(CancellationRule):
    """A cancellation names a request that was never sent.

    **Why it matters.** The receiver ignores it silently, and the call that should stop continues.

    **On the wire.** `> {"method":"notifications/cancelled","params":{"requestId":9}}` where no request 9 was sent

    **Instead.** Name the id of the request as it was sent, not a progress token or a number that only the application
    knows.
    """

    id = "cancel/unknown-request"
    needs_session = True
    needs_start = True

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        if not _is_unknown_id(context, id_, self.fold):
            return ()
        text = f"the {context.message.sender} never sent a request with the id {_short_id(id_)}"
        return [self.finding(context, text, pointer=_POINTER)]


class WrongDirection(CancellationRule):
    """A side cancels a request that it has received.

    **Why it matters.** Only the sender of a request can cancel it; the receiver answers it. The other side drops the
    notification and keeps waiting.

    **On the wire.** `> {"id":5,"method":"tools/call",…}`,
    `< {"method":"notifications/cancelled","params":{"requestId":5}}`

    **Instead.** Answer with an error.
    """

    id = "cancel/wrong-direction"
    needs_session = True
    needs_start = True
    replaces = ("cancel/unknown-request",)

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        peer = other_side(context.message.sender)
        open_request = _open_request(context, peer, id_, self.fold) if _is_unknown_id(context, id_, self.fold) else None
        if open_request is None:
            return ()
        text = f"the {other_side(context.message.sender)} sent request {_short_id(id_)}: its receiver cannot cancel it"
        return [self.finding(context, text, pointer=_POINTER, related=(open_request.seq,))]


class IdTypeChanged(CancellationRule):
    """A cancellation names the id of an open request, but as another JSON type.

    **Why it matters.** `"7"` does not match 7: nothing is cancelled, and no error says so.

    **On the wire.** `> {"id":7,"method":"tools/call",…}`,
    `> {"method":"notifications/cancelled","params":{"requestId":"7"}}`

    **Instead.** Keep the id as the JSON value that was sent.
    """

    id = "cancel/id-type-changed"
    needs_session = True
    replaces = ("cancel/unknown-request", "cancel/wrong-direction")

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        side = context.message.sender
        if (
            context.cancels is not None
            or context.session.lost_seq >= 0
            or _request_with_id(context, side, id_, self.fold) is not None
        ):
            return ()
        intended_target = _open_request(context, side, converted_id(id_), self.fold)
        if intended_target is None or context.id_state is not IdState.NEVER_SEEN:
            return ()
        text = (
            f"request {_short_id(intended_target.key.id)} is cancelled as {_short_id(id_)}: the id "
            "changed its JSON type"
        )
        return [self.finding(context, text, pointer=_POINTER, related=(intended_target.seq,))]


class AlreadyAnswered(CancellationRule):
    """A cancellation names a request that was answered well before.

    **Why it matters.** The work is already done. A sender that cancels now has lost track of its calls: often a timer
    keeps running after the response.

    **On the wire.** `< {"id":3,"result":{…}}` and, more than two seconds later,
    `> {"method":"notifications/cancelled","params":{"requestId":3}}`

    **Instead.** Stop the timer of a call when its response arrives.
    """

    id = "cancel/already-answered"
    needs_session = True
    level = WARNING
    needs_time = True

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        sender = context.message.sender
        target = (
            _request_with_id(context, sender, id_, self.fold)
            if context.cancels is None and is_of_session(context)
            else None
        )
        answered_ns = None if target is None else self.fold.tables[sender].answered_ns(target.key)
        if target is None or answered_ns is None or context.message.t_ns <= answered_ns + RACE_NS:
            return ()
        text = f"request {_short_id(id_)} was answered {(context.message.t_ns - answered_ns) / 1e9:.0f} s earlier"
        return [self.finding(context, text, pointer=_POINTER, related=(target.seq,))]


class Initialize(CancellationRule):
    """A client cancels `initialize`.

    **Why it matters.** A session cannot begin without `initialize`, and what the server does then is undefined.

    **On the wire.** `> {"id":0,"method":"initialize",…}`,
    `> {"method":"notifications/cancelled","params":{"requestId":0}}`

    **Instead.** Close the connection.
    """

    id = "cancel/initialize"
    who = "client"
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    sender = "client"
    replaces = ("cancel/already-answered",)

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        target, initialize = _request_with_id(context, "client", id_, self.fold), context.session.initialize
        is_open = context.cancels is not None and context.cancels.method == "initialize"
        if not is_open and (target is None or initialize is None or target.seq != initialize.seq):
            return ()
        return [self.finding(context, "initialize is cancelled", pointer=_POINTER)]


class TaskCancelled(CancellationRule):
    """A cancellation names a request that asks for a task, or was answered with one.

    **Why it matters.** Once there is a task, the request is over, so nothing happens, and the task continues.

    **On the wire.** `< {"id":3,"result":{"task":{"taskId":"t1",…}}}`,
    `> {"method":"notifications/cancelled","params":{"requestId":3}}`

    **Instead.** `> {"id":4,"method":"tasks/cancel","params":{"taskId":"t1"}}`
    """

    id = "cancel/task"
    needs_session = True
    versions = features.CORE_TASKS
    methods = frozenset({CANCELLED, "tools/call", "sampling/createMessage", "elicitation/create"})
    replaces = ("cancel/already-answered", "cancel/unknown-request")
    source = "2025-11-25 basic/utilities/cancellation; 2025-11-25 basic/utilities/tasks"

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - the hook decides
        return frozenset({"task"}) if hook == "result" else frozenset()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.answered is not None and context.answered.outcome is _TASK_OUTCOME:
            task_results: dict[int, tuple[int, int]] = self.state_for(context.session, dict)
            if len(task_results) < MAX_REMEMBERED_REQUESTS:
                task_results[context.answered.request.seq] = context.message.seq, context.message.t_ns
        return ()

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        if context.cancels is not None and isinstance(member(context.cancels.params, "task"), dict):
            text = f"request {_short_id(id_)} asks for a task: wait for its taskId, then send tasks/cancel"
            return [self.finding(context, text, pointer=_POINTER, related=(context.cancels.seq,), level=WARNING)]
        task_results: dict[int, tuple[int, int]] | None = context.session.memory.get(self.id)
        target = _request_with_id(context, context.message.sender, id_, self.fold) if task_results else None
        task_result = None if not task_results or target is None else task_results.get(target.seq)
        if task_result is None:
            return ()
        seq, t_ns = task_result
        if not context.session.has_received(context.message.sender, seq) and context.message.t_ns <= t_ns + RACE_NS:
            return ()  # the result and the cancellation may have crossed
        text = f"request {_short_id(id_)} was answered with a task, which only tasks/cancel can cancel"
        return [self.finding(context, text, pointer=_POINTER, related=(seq,))]


class ByServer(CancellationRule):
    """A server cancels something other than a `subscriptions/listen`.

    **Why it matters.** Since 2026-07-28 servers send no requests, so they have none to cancel. The call that the
    cancellation names remains unanswered.

    **On the wire.** `> {"id":5,"method":"tools/call",…}`,
    `< {"method":"notifications/cancelled","params":{"requestId":5}}`

    **Instead.** Answer with an error. A server uses a cancellation only to end a subscription.
    """

    id = "cancel/by-server"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.MESSAGE
    era = "modern"
    sender = "server"
    source = "2026-07-28 basic/patterns/cancellation"

    def check_cancellation(self, context: MessageContext, id_: Id) -> Iterable[Finding]:
        session = context.session
        if context.cancels is not None and context.cancels.method in ENDLESS_METHODS:
            return ()
        target = _open_request(context, "client", id_, self.fold)
        if target is None:
            subscription = self.fold.links.subscriptions.last_listen(
                session, RequestKey(context.message.frames[0].exchange, id_)
            )
            is_uncertain = not session.observed_start or session.unjudged.get("client") is not None
            if subscription is not None or is_uncertain:
                return ()
        text = f"the server cancels {_short_id(id_)}, which is not an open subscriptions/listen"
        return [self.finding(context, text, pointer=_POINTER, related=() if target is None else (target.seq,))]


# ---- shared by the rules


def named_id(context: MessageContext) -> Id | None:
    """Returns the id that a cancellation names, or None if the value cannot be an id."""
    value = member(context.body.get("params"), "requestId")
    return id_of(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _request_with_id(context: MessageContext, side: Side, id_: Id, fold: Fold) -> NamedRequest | None:
    """Returns a side's last request with an id in this session, or None if there is none."""
    last_use = fold.routing.used_ids(context.session).last_use(context.session.number, side, id_)
    return None if last_use is None else NamedRequest(last_use.seq, last_use.key)


def _open_request(context: MessageContext, side: Side, id_: Id, fold: Fold) -> NamedRequest | None:
    """Returns a side's last request with an id in this session if it is still open, or None otherwise."""
    target = _request_with_id(context, side, id_, fold)
    open_call = None if target is None else fold.tables[side].get(target.key)
    return target if target is not None and open_call is not None and open_call.request.seq == target.seq else None


def _is_unknown_id(context: MessageContext, id_: Id, fold: Fold) -> bool:
    """Whether no request of the sender ever had this id."""
    sender, session = context.message.sender, context.session
    if context.era == "modern" and sender == "server":
        return False  # `cancel/by-server` reports this
    if context.cancels is not None or context.id_state is not IdState.NEVER_SEEN or not is_of_session(context):
        return False
    is_sure = fold.routing.used_ids(session).has_all and not fold.tables[sender].forgotten_count
    return is_sure and session.unjudged.get(sender) is None and _request_with_id(context, sender, id_, fold) is None


def _short_id(id_: Id) -> str:
    return shortened(id_.text)
