"""Conversation: what a replay says to the server, and when (sans-IO).

The client's items are sent in the recorded order. Each waits for the answers to all calls that had been answered before
it in the recording; calls that were open at the same time then are so again. The client's responses are not in that
order: each follows the request of the server that it answers, which may come at another time than before.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Id, Notification, Request, Response, id_of
from analysis.facts import target_name
from analysis.playback.items import Item
from analysis.playback.script import Script
from analysis.playback.translation import Substitutes, canonical_token, translated
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.methods import METHODS, OPENING_METHODS, REQUEST_METHODS
from mcpproxy.replay.chosen_values import ChosenValues
from mcpproxy.replay.incoming import client_messages_in, messages_in
from mcpproxy.replay.new_ids import NewIds
from mcpproxy.replay.open_calls import OpenCall, OpenCalls
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.outcome import ReplayOutcome
from mcpproxy.replay.server_requests import ServerRequests, answer_to_unrecorded, id_token
from mcpproxy.replay.versions import agreed_version, replacing_version

PATIENCE_NS: Final = 1_000_000_000
"""How long is waited for what an item need not depend on: a notification that the client may have reacted to, a request
of the server outside a call, the items before a response."""
MAX_UNANSWERED: Final = 3
"""After so many calls in a row that were not answered in time, the replay ends: the server hangs."""
_REACTED_TO: Final = frozenset(
    name
    for name, method in METHODS.items()
    if method.sender == "server" and name.startswith("notifications/") and name != "notifications/message"
)
"""Notifications to which a client reacts."""
_PROGRESS: Final = "notifications/progress"
_CANCELLED: Final = "notifications/cancelled"


class Outgoing(NamedTuple):
    """One unit of bytes for the server."""

    raw: bytes
    """The bytes, without a delimiter."""
    calls: tuple[int, ...] = ()
    """`Call.number` of the recorded requests in it."""
    method: str = ""
    """The method of the request or notification; empty for responses, batches and bytes that are no message."""
    version: str | None = None
    """The revision that `initialize` agreed on; None before that, or without it."""


class _Reaction(NamedTuple):
    """A response of the client that is due because the server's request has come."""

    item: Item | None
    """The recorded response; None if it is not from the recording."""
    raw: bytes
    due_ns: int
    """When it is due at the latest."""
    earliest_ns: int


class Conversation:
    """The client's half of one connection. Not safe for several threads; times are those of any monotonic clock."""

    def __init__(
        self, script: Script, numbers: Sequence[int], options: ReplayOptions, skipped: frozenset[int] = frozenset()
    ) -> None:
        """Begin a conversation.

        Args:
            script: the complete script.
            numbers: the numbers of all items of the connection, in order.
            options: how they are sent.
            skipped: the client's items among them that are not sent.
        """
        self._script, self._numbers, self._options, self._skipped = script, numbers, options, skipped
        self.outcome = ReplayOutcome()
        self._values = ChosenValues()
        self._open = OpenCalls()
        self._new_ids = NewIds()
        self._position = 0
        """The position in `numbers` of what has been looked at."""
        self._next: Item | None = None
        self._awaited: set[int] = set()
        """The calls that had been answered before the next item, and may be open now."""
        self._hoped_for: list[Item] = []
        """What else had come before the next item."""
        self._answered_ns = 0
        """The recorded stamp of the last event that the next item follows."""
        self._free_ns: int | None = None
        """When nothing stood in the way of the next item any more; None if something does."""
        self._given_up_hope: set[str] = set()
        """Methods for which hope was in vain."""
        self._came: Counter[str] = Counter()
        self._expected: Counter[str] = Counter()
        self._server_requests = ServerRequests(script, numbers, options.matching)
        self._reactions: list[_Reaction] = []
        self._version: str | None = None
        self._is_ended = False
        self._settled_ns: int | None = None
        self._last_ns = script.items[numbers[-1]].t_ns if numbers else 0
        self._advance()

    # ---- the order

    def _advance(self) -> None:
        """Go on to the client's next item in the recording."""
        self._next, self._free_ns, self._hoped_for = None, None, []
        items = self._script.items
        while self._position < len(self._numbers):
            item = items[self._numbers[self._position]]
            self._position += 1
            if item.sender == "server":
                self._note_server_item(item)
            elif item.kind == "response":
                if item.call >= 0:
                    self._hoped_for.append(item)
            elif item.number not in self._skipped:
                self._next = item
                self._awaited.update(call.number for call in self._open.failed_before(item.t_ns))
                return

    def _note_server_item(self, item: Item) -> None:
        for call in [member.call for member in item.members if member.kind == "response"] or [item.call]:
            if item.kind in ("response", "batch") and call in self._open:
                self._awaited.add(call)
                self._answered_ns = item.t_ns
        if item.kind == "notification" and item.method in _REACTED_TO:
            self._expected[item.method] += 1
            self._hoped_for.append(item)

    def _is_free(self, item: Item, now_ns: int) -> bool:
        """Whether the next item may be sent now."""
        self._awaited = {call for call in self._awaited if call in self._open}
        if self._awaited:
            return False
        if self._free_ns is None:
            self._free_ns = now_ns
        if any(map(self._is_still_hoped_for, self._hoped_for)):
            if now_ns < self._free_ns + PATIENCE_NS:
                return False
            self._given_up_hope.update(each.method for each in self._hoped_for if self._is_still_hoped_for(each))
        self._hoped_for = []
        return now_ns >= self._earliest_ns(item)

    def _is_still_hoped_for(self, item: Item) -> bool:
        if item.method in self._given_up_hope:
            return False
        if item.kind == "response":
            return item.method in REQUEST_METHODS and not self._server_requests.has_come(item.call)
        return self._came[item.method] < self._expected[item.method]

    def _earliest_ns(self, item: Item) -> int:
        assert self._free_ns is not None
        earliest_ns = self._free_ns
        if self._options.speed is not None:
            earliest_ns += int(max(0, item.t_ns - self._answered_ns) / self._options.speed)
        if item.method == _CANCELLED and (call := self._cancelled_call(item)) is not None:
            recorded_progress = self._progress_before(call, item)
            if recorded_progress > call.progress_count:
                return call.deadline_ns
            if not recorded_progress:
                earliest_ns = max(earliest_ns, min(call.sent_ns + item.t_ns - call.recorded_ns, call.deadline_ns))
        return earliest_ns

    def _progress_before(self, call: OpenCall, item: Item) -> int:
        items = (self._script.items[number] for number in self._script.items_of_call(call.number))
        return sum(each.method == _PROGRESS and each.number < item.number for each in items)

    def _cancelled_call(self, item: Item) -> OpenCall | None:
        for message in client_messages_in(self._script.raw(item)):
            if isinstance(message, Notification) and isinstance(message.params, dict):
                id_ = id_of(message.params.get("requestId"))
                return self._open.by_id(self._new_ids.current(id_, item.session))
        return None

    # ---- sending

    def due(self, now_ns: int, limit: int = 16) -> list[Outgoing]:
        """Returns what is to be sent now, in order; the caller sends all of it.

        Args:
            now_ns: the time.
            limit: the most units of bytes; call again for more.
        """
        self._expire(now_ns)
        if self._is_ended:
            return []
        outgoing = [Outgoing(reaction.raw, version=self._version) for reaction in self._take_reactions(now_ns)]
        while len(outgoing) < limit and self._next is not None and self._is_free(self._next, now_ns):
            outgoing.append(self._send(self._next, now_ns))
            self._advance()
            outgoing += [Outgoing(reaction.raw, version=self._version) for reaction in self._take_reactions(now_ns)]
        return outgoing

    def _take_reactions(self, now_ns: int) -> list[_Reaction]:
        ready = [reaction for reaction in self._reactions if self._is_ready(reaction, now_ns)]
        self._reactions = [reaction for reaction in self._reactions if reaction not in ready]
        self.outcome.sent += len(ready)
        return ready

    def _is_ready(self, reaction: _Reaction, now_ns: int) -> bool:
        if now_ns < reaction.earliest_ns:
            return False
        is_next_later = self._next is None or reaction.item is None or self._next.number > reaction.item.number
        return is_next_later or now_ns >= reaction.due_ns

    def _send(self, item: Item, now_ns: int) -> Outgoing:
        recorded = self._script.raw(item)
        raw = recorded
        if item.kind != "invalid":
            raw = self._new_ids.translated(self._values.substituted(recorded), item.session, self._open)
        calls = tuple(member.call for member in item.members if member.kind == "request")
        if item.kind == "request":
            calls = (item.call,)
        if calls:
            self._open_calls(item, raw, calls, now_ns)
        elif item.method == _CANCELLED and (call := self._cancelled_call(item)) is not None:
            self._open.note_cancellation(call, now_ns, self._recorded_delay_after(call, item))
        self._answered_ns = item.t_ns
        self.outcome.sent += 1
        version = None if item.method == "initialize" else self._version
        return Outgoing(raw, calls, "" if item.kind in ("batch", "invalid") else item.method, version)

    def _open_calls(self, item: Item, raw: bytes, calls: tuple[int, ...], now_ns: int) -> None:
        requests = [message for message in client_messages_in(raw) if isinstance(message, Request)]
        for number, request in zip(calls, requests, strict=False):
            answer = self._script.answer_of(number)
            failed_ns = self._failed_ns(item, number) if answer is None else None
            known_end_ns = self._last_ns if failed_ns is None else failed_ns
            is_answered = answer is not None or failed_ns is not None
            wait_ns = self._options.timeout_ns
            if not is_answered:
                wait_ns = min(wait_ns, max(0, known_end_ns - item.t_ns))
            self._open.add(
                OpenCall(
                    number,
                    item.seq,
                    item.t_ns,
                    item.session,
                    request.id,
                    _token_of(request),
                    request.method,
                    target_name(request.params) or "",
                    now_ns,
                    now_ns + wait_ns,
                    is_answered=is_answered,
                    failed_ns=failed_ns,
                    is_endless=request.method in ENDLESS_METHODS,
                )
            )

    def _failed_ns(self, item: Item, number: int) -> int | None:
        answer = self._script.http_answer(item.exchange) if item.exchange else None
        return answer.ended_ns if answer is not None and number in answer.calls and answer.ended_ns >= 0 else None

    def _recorded_delay_after(self, call: OpenCall, item: Item) -> int | None:
        """Returns how long after its cancellation a call was answered in the recording; None if it was not."""
        answer = self._script.answer_of(call.number)
        if answer is None or answer < item.number:
            return None
        return self._script.items[answer].t_ns - item.t_ns

    # ---- receiving

    def receive(self, raw: bytes, now_ns: int, calls: Sequence[int] = ()) -> None:
        """Take a unit of bytes from the server: a message, a batch, or something else.

        Args:
            raw: the bytes, without a delimiter.
            now_ns: the time.
            calls: `Call.number` of the recorded requests in the HTTP exchange that carried it.
        """
        self._settled_ns = None
        for message in messages_in(raw):
            if isinstance(message, Response):
                self._receive_response(message, calls)
            elif isinstance(message, Request):
                self._receive_request(message, now_ns)
            elif isinstance(message, Notification):
                self._receive_notification(message)

    def _receive_response(self, response: Response, calls: Sequence[int]) -> None:
        call = self._open.take(response, calls)
        if call is None:
            return
        self.outcome.note_answer(call)
        recorded = self._recorded_answer(call)
        if recorded is not None:
            self._values.learn(recorded.body.get("result"), response.body.get("result"))
            self._values.learn(recorded.body.get("error"), response.body.get("error"))
        if call.method in OPENING_METHODS:
            self._note_version(call, recorded, response)

    def _recorded_answer(self, call: OpenCall) -> Response | None:
        number = self._script.answer_of(call.number)
        if number is None:
            return None
        recorded = messages_in(self._script.raw(self._script.items[number]))
        responses = (message for message in recorded if isinstance(message, Response))
        recorded_id = self._new_ids.recorded(call.id)
        return next((message for message in responses if len(recorded) == 1 or message.id == recorded_id), None)

    def _note_version(self, call: OpenCall, recorded: Response | None, response: Response) -> None:
        if call.method == "initialize":
            self._version = agreed_version(response)
            recorded_version = None if recorded is None else agreed_version(recorded)
            self.outcome.note_versions(recorded_version, self._version)
            return
        replacement = replacing_version(recorded, response)
        if replacement is not None:
            self._values.replace_member(replacement.member, replacement.new)
            self.outcome.note_versions(replacement.recorded, replacement.new)

    def _receive_request(self, request: Request, now_ns: int) -> None:
        recorded = self._server_requests.take(request)
        if recorded is None:
            self.outcome.unrecorded[request.method] += 1
            self._reactions.append(_Reaction(None, answer_to_unrecorded(request), now_ns, now_ns))
            return
        number = self._script.answer_of(recorded.call)
        if number is None:
            return  # the client did not answer it then, either
        answer = self._script.items[number]
        recorded_message = self._server_requests.message_of(recorded)
        raw = self._script.raw(answer)
        if recorded_message is not None:
            self._values.learn(recorded_message.body.get("params"), request.body.get("params"))
            raw = translated(raw, _substitutes(recorded_message, request))
        delay_ns = 0
        if self._options.speed is not None:
            delay_ns = int((answer.t_ns - recorded.item.t_ns) / self._options.speed)
        due_ns = now_ns + delay_ns
        self._reactions.append(_Reaction(answer, self._values.substituted(raw), due_ns + PATIENCE_NS, due_ns))

    def _receive_notification(self, notification: Notification) -> None:
        if notification.method in _REACTED_TO:
            self._came[notification.method] += 1
        params = notification.params
        if notification.method == _PROGRESS and isinstance(params, dict):
            self._open.note_progress(id_of(params.get("progressToken")))

    def fail(self, calls: Iterable[int], reason: str) -> None:
        """Note that the HTTP exchange of calls ended without their answers.

        Args:
            calls: `Call.number` of each; those that have been answered are passed over.
            reason: how it ended, in words of ours.
        """
        for number in calls:
            call = self._open.drop(number)
            if call is not None:
                self.outcome.note_failure(call, reason)
                if call.method in OPENING_METHODS and call.failed_ns is None:
                    self._stop(f"{call.method} was not answered: {reason}")

    def end(self, reason: str) -> None:
        """Note that nothing more can come from the server.

        Args:
            reason: why, in words of ours.
        """
        handshake = [call for call in self._open.drop_all() if call.method in OPENING_METHODS and call.is_answered]
        if handshake:
            self.outcome.handshake_failure = f"{handshake[0].method} was not answered: {reason}"
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._reactions = []
        items = self._script.items
        rest = [items[number] for number in self._numbers[self._position :]]
        self.outcome.unsent += (self._next is not None) + sum(
            item.sender == "client" and item.kind != "response" and item.number not in self._skipped for item in rest
        )
        self.outcome.stopped = reason if self.outcome.unsent else ""

    def _expire(self, now_ns: int) -> None:
        for call in self._open.take_overdue(now_ns):
            if not call.is_answered or call.is_cancelled:
                continue  # it is as in the recording
            self.outcome.note_timeout(call)
            if call.method in OPENING_METHODS:
                self.outcome.handshake_failure = f"{call.method} was not answered in time"
                self._stop(self.outcome.handshake_failure)
            elif self.outcome.unanswered_in_a_row >= MAX_UNANSWERED:
                self._stop(f"{MAX_UNANSWERED} calls in a row were not answered in time")

    # ---- waiting

    def is_over(self, now_ns: int) -> bool:
        """Whether everything has been sent, and all that can be expected has come."""
        if self._is_ended:
            return True
        if self._next is not None or self._reactions or self._open.is_waiting:
            return False
        if self._settled_ns is None:
            self._settled_ns = now_ns + (PATIENCE_NS if self._is_more_expected else 0)
        return now_ns >= self._settled_ns

    @property
    def _is_more_expected(self) -> bool:
        if any(self._came[method] < count for method, count in self._expected.items()):
            return True
        return self._server_requests.is_any_expected

    def next_due_ns(self, now_ns: int) -> int | None:
        """Returns when something may be due next; None if that depends on the server alone."""
        times = [reaction.earliest_ns for reaction in self._reactions if reaction.earliest_ns > now_ns]
        times += [reaction.due_ns for reaction in self._reactions]
        times += [time for time in (self._open.next_deadline_ns, self._settled_ns) if time is not None]
        if self._next is not None and self._free_ns is not None:
            times.append(self._free_ns + PATIENCE_NS if self._hoped_for else self._earliest_ns(self._next))
        return min(times, default=None)


def _token_of(request: Request) -> Id | None:
    token: Any = request.meta.get("progressToken")
    return id_of(token) if isinstance(token, str | int | float) and not isinstance(token, bool) else None


def _substitutes(recorded: Request, request: Request) -> Substitutes:
    """Returns what the answer to a recorded request needs to answer the one that came."""
    tokens = {}
    old_token, new_token = _token_of(recorded), _token_of(request)
    if old_token is not None and new_token is not None:
        tokens[canonical_token(old_token.text.encode())] = new_token.text.encode()
    return Substitutes({canonical_token(id_token(recorded)): id_token(request)}, tokens)
