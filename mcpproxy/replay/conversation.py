"""Conversation: what a replay says to the server, and when (sans-IO).

The client's items are sent in the recorded order. Each waits for the answers to all calls that had been answered before
it in the recording; calls that were open at the same time then are so again. The client's responses are not in that
order: each follows the request of the server that it answers, which may come at another time than before.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Id, Notification, Request, Response, id_of
from analysis.facts import target_name
from analysis.playback.incoming import client_messages_in, server_messages_in
from analysis.playback.items import HttpAnswer, Item
from analysis.playback.request_fields import SESSION_FIELD, Fields
from analysis.playback.script import Script
from analysis.playback.translation import Substitutes, canonical_token, translated
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.methods import OPENING_METHODS
from mcpproxy.replay.chosen_values import ChosenValues
from mcpproxy.replay.new_ids import NewIds
from mcpproxy.replay.open_calls import OpenCall, OpenCalls
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.order import PATIENCE_NS, PROGRESS, Order
from mcpproxy.replay.outcome import ReplayOutcome
from mcpproxy.replay.own_handshake import OWN_CALL, OwnHandshake
from mcpproxy.replay.server_requests import ServerRequests, answer_to_unrecorded, id_token
from mcpproxy.replay.versions import VERSION_MEMBER, agreed_version, replacing_version
from mcpproxy.wording.resending import INITIALIZED_MESSAGE

MAX_UNANSWERED: Final = 3
"""After so many calls in a row that were not answered in time, the replay ends: the server hangs."""
_CANCELLED: Final = "notifications/cancelled"
_POLLING: Final = frozenset({"tasks/get", "tasks/result", "events/poll"})
"""Requests that ask again and again how far something is: sent at once, they would find it where it was."""
_FIRST_BAD_STATUS: Final = 300
MAX_WAITING_ANSWERS: Final = 10_000
"""How many answers to requests that were not recorded may wait until the server reads them; then the replay ends."""
_MAX_SETTLING_NS: Final = 10 * PATIENCE_NS
"""How long what else was recorded is waited for, if the server says other things all the time."""


class RecordedPost(NamedTuple):
    """How a message was sent over HTTP in the recording."""

    raw: bytes
    fields: Fields
    """Its header fields, with the revisions of today."""


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
    abandoned: int | None = None
    """`Call.number` of a call that is cancelled now: over HTTP by closing its exchange, over pipes by the bytes, if
    there are any."""
    recorded: RecordedPost | None = None
    """How it was sent in the recording; None if that was not over HTTP, or is not known."""


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
        self,
        script: Script,
        numbers: Sequence[int],
        options: ReplayOptions,
        skipped: frozenset[int] = frozenset(),
        own_revision: str | None = None,
    ) -> None:
        """Begin a conversation.

        Args:
            script: the complete script.
            numbers: the numbers of all items of the connection, in order.
            options: how they are sent.
            skipped: the client's items among them that are not sent.
            own_revision: the revision of a handshake that comes first, as the recording has none; None for no such one.
        """
        self._script, self._options = script, options
        self.outcome = ReplayOutcome()
        self._own_handshake = None if own_revision is None else OwnHandshake(own_revision)
        self._values = ChosenValues()
        self._open = OpenCalls()
        self._new_ids = NewIds()
        self._server_requests = ServerRequests(script, numbers, options.matching)
        self._order = Order(script, numbers, skipped, self._open, self._server_requests)
        self._reactions: list[_Reaction] = []
        self._answers: dict[Id | None, Response] = {}
        """The responses in one recorded item, because a batch may have a hundred thousand."""
        self._answers_of = -1
        self._version: str | None = None
        self._new_versions: dict[str, str] = {}
        """Revisions that were agreed on, by the recorded ones, if they differ."""
        self._is_ended = False
        self._blocked_ns: int | None = None
        """Since when nothing could be sent; None if something can be."""
        self._done_ns: int | None = None
        """When everything had been sent and answered for the first time."""
        self._settled_ns: int | None = None
        self._last_ns = script.items[numbers[-1]].t_ns if numbers else 0

    @property
    def version(self) -> str | None:
        """The revision that `initialize` agreed on; None before that, or without it."""
        return self._version

    # ---- sending

    def due(self, now_ns: int, limit: int = 16) -> list[Outgoing]:
        """Returns what is to be sent now, in order; the caller sends all of it.

        Args:
            now_ns: the time.
            limit: the most units of bytes; call again for more.
        """
        self._blocked_ns = None
        self._expire(now_ns)
        if self._is_ended:
            return []
        outgoing = self._take_own_handshake(now_ns)
        if self._own_handshake is not None:
            return outgoing
        outgoing += [*self._take_abandoned(now_ns), *self._take_reactions(now_ns)]
        while len(outgoing) < limit and (item := self._order.next) is not None:
            if not self._order.is_free(now_ns) or now_ns < self._earliest_ns(item):
                break
            outgoing.append(self._send(item, now_ns))
            self._order.advance()
            outgoing += [*self._take_abandoned(now_ns), *self._take_reactions(now_ns)]
        return outgoing

    def _take_own_handshake(self, now_ns: int) -> list[Outgoing]:
        """Returns what is due of a handshake that the recording does not have."""
        own = self._own_handshake
        if own is None or OWN_CALL in self._open:
            return []
        if not own.is_begun:
            self._open.add(own.begin(now_ns, self._options.timeout_ns))
            return [Outgoing(own.request, (OWN_CALL,), "initialize")]
        self._own_handshake = None
        self.outcome.note_own_handshake(self._version)
        if self._version is None:
            return []
        self._new_versions[own.revision] = self._version
        return [Outgoing(INITIALIZED_MESSAGE, method="notifications/initialized", version=self._version)]

    def _earliest_ns(self, item: Item) -> int:
        """Returns when the next item may be sent, given that nothing that comes before it is missing."""
        assert self._order.free_ns is not None
        earliest_ns = self._order.free_ns
        if self._options.speed is not None:
            earliest_ns += int(self._order.pause_ns / self._options.speed)
        elif item.method in _POLLING:
            earliest_ns += min(self._order.pause_ns, self._options.timeout_ns)
        if item.method == _CANCELLED and (call := self._cancelled_call(item)) is not None:
            earliest_ns = max(earliest_ns, self._cancelling_ns(call, item.t_ns))
        return earliest_ns

    def _cancelling_ns(self, call: OpenCall, recorded_ns: int) -> int:
        """Returns when a call is cancelled: after as much progress as then, or after as long if there was none."""
        items = (self._script.items[number] for number in self._script.items_of_call(call.number))
        progress_count = sum(item.method == PROGRESS and item.t_ns < recorded_ns for item in items)
        if progress_count:
            return call.sent_ns if call.progress_count >= progress_count else call.deadline_ns
        return min(call.sent_ns + recorded_ns - call.recorded_ns, call.deadline_ns)

    def _cancelled_call(self, item: Item) -> OpenCall | None:
        for message in client_messages_in(self._script.raw(item)):
            if isinstance(message, Notification) and isinstance(message.params, dict):
                id_ = id_of(message.params.get("requestId"))
                return self._open.by_id(self._new_ids.current(id_, item.session))
        return None

    def _take_abandoned(self, now_ns: int) -> Iterator[Outgoing]:
        """Yields the ends of the calls that the client abandoned by closing their HTTP exchanges."""
        calls, self._order.left = self._order.left, []
        for call in calls:
            if call.number not in self._open or call.failed_ns is None:
                continue
            if now_ns < self._cancelling_ns(call, call.failed_ns):
                self._order.left.append(call)
                continue
            self._open.drop(call.number)
            raw = b""
            if call.is_modern:
                params = b'"params":{"requestId":%b}' % call.id.text.encode("utf-8", "surrogatepass")
                raw = b'{"jsonrpc":"2.0","method":"%b",%b}' % (_CANCELLED.encode(), params)
            yield Outgoing(raw, method=_CANCELLED, version=self._version, abandoned=call.number)

    def _take_reactions(self, now_ns: int) -> list[Outgoing]:
        ready: list[_Reaction] = []
        waiting: list[_Reaction] = []
        for reaction in self._reactions:
            (ready if self._is_ready(reaction, now_ns) else waiting).append(reaction)
        self._reactions = waiting
        self.outcome.sent += len(ready)
        return [
            Outgoing(reaction.raw, version=self._version, recorded=self._recorded_post(reaction.item))
            for reaction in ready
        ]

    def _is_ready(self, reaction: _Reaction, now_ns: int) -> bool:
        if now_ns < reaction.earliest_ns:
            return False
        item = self._order.next
        is_next_later = item is None or reaction.item is None or item.number > reaction.item.number
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
        abandoned = None
        if item.method == _CANCELLED and (call := self._cancelled_call(item)) is not None:
            self._open.note_cancellation(call, now_ns, self._recorded_delay_after(call, item))
            abandoned = call.number if call.is_modern and not item.exchange else None
        self.outcome.sent += 1
        version = None if item.method == "initialize" else self._version
        method = "" if item.kind in ("batch", "invalid") else item.method
        return Outgoing(raw, calls, method, version, abandoned, self._recorded_post(item))

    def _recorded_post(self, item: Item | None) -> RecordedPost | None:
        fields = None if item is None else item.fields
        if item is None or fields is None:
            return None
        new = self._new_versions
        current = [
            (name, new.get(value, value) if name == VERSION_FIELD else value)
            for name, value in fields
            if name != SESSION_FIELD
        ]
        return RecordedPost(self._script.raw(item), tuple(current))

    def _open_calls(self, item: Item, raw: bytes, calls: tuple[int, ...], now_ns: int) -> None:
        requests = [message for message in client_messages_in(raw) if isinstance(message, Request)]
        answered_by, answered_ns = -1, 0  # members of a batch usually have one answer, which is a long row
        for number, request in zip(calls, requests, strict=False):
            answer = self._script.answer_of(number)
            if answer is not None and answer != answered_by:
                answered_by, answered_ns = answer, self._script.items[answer].t_ns
            failure = self._failure_of(item, number) if answer is None else None
            failed_ns = None if failure is None else failure.ended_ns
            known_end_ns = self._last_ns if failed_ns is None else failed_ns
            is_answered = answer is not None or failed_ns is not None
            wait_ns = self._options.timeout_ns
            if answer is not None:
                wait_ns += answered_ns - item.t_ns
            elif not is_answered:
                wait_ns = min(wait_ns, max(0, known_end_ns - item.t_ns) + PATIENCE_NS)
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
                    is_left=failure is not None and failure.ended_by == "client",
                    is_endless=request.method in ENDLESS_METHODS,
                    is_modern=VERSION_MEMBER in request.meta,
                )
            )

    def _failure_of(self, item: Item, number: int) -> HttpAnswer | None:
        """Returns how the HTTP exchange of a call ended that was not answered; None if it was open to the end."""
        answer = self._script.http_answer(item.exchange) if item.exchange else None
        if answer is None or number not in answer.calls or answer.ended_ns < 0:
            return None
        is_accepted = answer.is_legacy and answer.status < _FIRST_BAD_STATUS
        return None if is_accepted else answer  # the older transport answers in its stream

    def _recorded_delay_after(self, call: OpenCall, item: Item) -> int | None:
        """Returns how long after its cancellation a call was answered in the recording; None if it was not."""
        answer = self._script.answer_of(call.number)
        if answer is None or answer < item.number:
            return None
        return self._script.items[answer].t_ns - item.t_ns

    def note_blocked(self, now_ns: int) -> None:
        """Note that nothing can be sent now, because the server does not read. Times count all the same."""
        self._expire(now_ns)
        if self._blocked_ns is None or self._open.is_waiting:
            self._blocked_ns = now_ns
        elif now_ns >= self._blocked_ns + self._options.timeout_ns:
            self.give_up("the server did not read what it was sent in time")

    def note_unsent(self, outgoing: Outgoing, reason: str) -> None:
        """Note that something which was due was not sent.

        Args:
            outgoing: what `due` returned.
            reason: why, in words of ours.
        """
        self.outcome.note_left_out(reason)
        self.fail(outgoing.calls, "not sent")

    # ---- receiving

    def receive(self, raw: bytes, now_ns: int, calls: Sequence[int] = ()) -> None:
        """Take a unit of bytes from the server: a message, a batch, or something else.

        Args:
            raw: the bytes, without a delimiter.
            now_ns: the time.
            calls: `Call.number` of the recorded requests in the HTTP exchange that carried it.
        """
        self._settled_ns = None
        for message in server_messages_in(raw):
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
        if self._answers_of != number:
            recorded = server_messages_in(self._script.raw(self._script.items[number]))
            self._answers = {each.id: each for each in recorded if isinstance(each, Response)}
            self._answers_of = number
        if len(self._answers) == 1:
            return next(iter(self._answers.values()))
        return self._answers.get(self._new_ids.recorded(call.id))

    def _note_version(self, call: OpenCall, recorded: Response | None, response: Response) -> None:
        if call.method == "initialize":
            self._version = agreed_version(response)
            recorded_version = None if recorded is None else agreed_version(recorded)
            self.outcome.note_versions(recorded_version, self._version)
            if recorded_version is not None and self._version is not None:
                self._new_versions[recorded_version] = self._version
            return
        replacement = replacing_version(recorded, response)
        if replacement is not None:
            self._values.replace_member(replacement.member, replacement.new)
            self._new_versions[replacement.recorded] = replacement.new
            self.outcome.note_versions(replacement.recorded, replacement.new)

    def _receive_request(self, request: Request, now_ns: int) -> None:
        recorded = self._server_requests.take(request)
        if recorded is None:
            self.outcome.note_unrecorded(request.method)
            if len(self._reactions) >= MAX_WAITING_ANSWERS:
                self.give_up(f"the server did not read {MAX_WAITING_ANSWERS:,} answers to its requests")
                return
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
        self._order.note_notification(notification.method)
        params = notification.params
        if notification.method == PROGRESS and isinstance(params, dict):
            self._open.note_progress(id_of(params.get("progressToken")))

    def fail(self, calls: Iterable[int], reason: str) -> None:
        """Note that the HTTP exchange of calls ended without their answers.

        Args:
            calls: `Call.number` of each; those that have been answered are ignored.
            reason: how it ended, in words of ours.
        """
        for number in calls:
            call = self._open.drop(number)
            if call is not None:
                self.outcome.note_failure(call, reason)
                if call.method in OPENING_METHODS and call.failed_ns is None and number != OWN_CALL:
                    self.outcome.failure = f"{call.method} was not answered: {reason}"
                    self._stop(self.outcome.failure)

    def end(self, reason: str) -> None:
        """Note that nothing more can come from the server.

        Args:
            reason: why, in words of ours.
        """
        handshake = [call for call in self._open.drop_all() if call.method in OPENING_METHODS and call.is_answered]
        if handshake:
            self.outcome.failure = f"{handshake[0].method} was not answered: {reason}"
        self._stop(reason)

    def give_up(self, reason: str) -> None:
        """End the replay, because what the server does cannot be compared.

        Args:
            reason: what it does, in words of ours.
        """
        if not self._is_ended:
            self.outcome.failure = reason
            self.outcome.is_given_up = True
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._reactions = []
        self.outcome.unsent += self._order.unsent_count
        self.outcome.stopped = reason if self.outcome.unsent else ""

    def _expire(self, now_ns: int) -> None:
        for call in self._open.take_overdue(now_ns):
            if not call.is_answered or call.is_cancelled:
                continue  # it is as in the recording
            self.outcome.note_timeout(call)
            if call.method in OPENING_METHODS:
                self.outcome.failure = f"{call.method} was not answered in time"
                self._stop(self.outcome.failure)
            elif self.outcome.unanswered_in_a_row >= MAX_UNANSWERED:
                self._stop(f"{MAX_UNANSWERED} calls in a row were not answered in time")

    # ---- waiting

    def is_over(self, now_ns: int) -> bool:
        """Whether everything has been sent, and all that can be expected has come."""
        if self._is_ended:
            return True
        if self._order.next is not None or self._reactions or self._open.is_waiting:
            return False
        if self._done_ns is None:
            self._done_ns = now_ns
        if self._settled_ns is None:
            self._settled_ns = self._settling_ns(self._done_ns, now_ns)
        return now_ns >= self._settled_ns

    def _settling_ns(self, done_ns: int, now_ns: int) -> int:
        """Returns when nothing more is waited for, given when everything had been sent and answered."""
        ending = self._script.ending
        if ending is not None and ending.by_server:
            # It ends by itself again, or it has had the time.
            return done_ns + min(max(0, ending.t_ns - self._last_ns), self._options.timeout_ns) + PATIENCE_NS
        is_more_expected = self._order.is_more_expected or self._open.is_end_expected
        return min(now_ns + (PATIENCE_NS if is_more_expected else 0), done_ns + _MAX_SETTLING_NS)

    def next_due_ns(self, now_ns: int) -> int | None:
        """Returns when something may be due next; None if that depends on the server alone."""
        times = [reaction.earliest_ns for reaction in self._reactions if reaction.earliest_ns > now_ns]
        times += [reaction.due_ns for reaction in self._reactions]
        times += [self._cancelling_ns(call, call.failed_ns) for call in self._order.left if call.failed_ns is not None]
        times += [
            time
            for time in (self._open.next_deadline_ns, self._settled_ns, self._order.next_look_ns)
            if time is not None
        ]
        if self._order.next is not None and self._order.free_ns is not None:
            times.append(self._earliest_ns(self._order.next))
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
