"""Conversation: what a mock says to one client, whatever the transport (sans-IO).

A request is answered by everything that the server sent for it in the recording, in the recorded order: progress, log
messages, requests to the client, and the response. An item waits for what the client had sent between the request and
the item in the recording: always for the answer to a server request; for other items at most `PATIENCE_NS`, because
another client may not send them at all. Items that belong to no request follow what the client had sent last before
them, or anything that it had sent later.

Requests that match the same recorded ones get their answers in the recorded order; when all were used, the last answer
is repeated. Where the answer has not been read yet, a request waits for the script to grow: whoever grows it calls
`due` again.
"""

from collections import ChainMap, deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.message import (
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    converted_id,
    id_of,
    id_of_token,
    parse_exactly,
)
from analysis.facts import target_name
from analysis.playback.items import HttpAnswer, Item
from analysis.playback.json_spans import spans_of
from analysis.playback.script import Script
from analysis.playback.translation import MessageTokens, Substitutes, tokens_of, translated
from mcpproxy.mock.errors import GIANT_RESPONSE, invalid_response, pong, unsupported_version_response
from mcpproxy.mock.incoming import member_of_params, params_of, read_messages
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.outgoing import Outgoing
from mcpproxy.mock.recorded_calls import RecordedCall, RecordedCalls
from mcpproxy.mock.session_play import PATIENCE_NS, Delivery, Play, SessionPlay
from mcpproxy.mock.usage import Miss, Usage

__all__ = ["PATIENCE_NS", "Conversation"]

MAX_DUE_AT_ONCE: Final = 64
"""How many units `due` returns at once: transports ask for more when they have written these."""
MAX_DUE_BYTES: Final = 1 << 20
"""At how many bytes `due` returns, even if there are fewer."""
_CANCELLED: Final = "notifications/cancelled"
_MIN_FAILURE_STATUS: Final = 300
_NULL: Final = b"null"


class _BatchAnswer(NamedTuple):
    """The answer to one request of a batch."""

    request: int
    raw: bytes
    http: HttpAnswer | None = None
    item: Item | None = None
    """The recorded item that holds it; None if it was not recorded."""
    ids: tuple[bytes, bytes] = (b"", b"")
    """The recorded id and that of today."""


class _Batch:
    """A batch of today: its answers are collected, and sent as one."""

    def __init__(self, requests: list[int]) -> None:
        self.open_requests = set(requests)
        self.answers: list[_BatchAnswer] = []


class _PlayedSession(NamedTuple):
    calls: RecordedCalls
    play: SessionPlay


class _PendingRequest:
    """A request of today."""

    __slots__ = ("batch", "id", "key", "message", "number", "size", "tokens")

    def __init__(self, number: int, message: Request, tokens: MessageTokens, batch: _Batch | None, size: int) -> None:
        self.number, self.message, self.tokens, self.batch, self.size = number, message, tokens, batch, size
        self.key = ""


class _AskedRequest:
    """A request of the server that was sent and not answered yet."""

    __slots__ = ("call", "play", "session")

    def __init__(self, session: int, play: Play | None, call: int) -> None:
        self.session, self.play, self.call = session, play, call


class Conversation:
    """One client's conversation. Not safe for several threads; times are those of any monotonic clock."""

    def __init__(self, script: Script, session: int, options: MockOptions, use: Usage | None = None) -> None:
        """Begin a conversation that plays one recorded session.

        Args:
            script: the script; something else grows it.
            session: the number of the session.
            options: how requests are matched and answered.
            use: what is used of the script, if several conversations share that.
        """
        self.usage = use or Usage()
        self._script, self._options = script, options
        self._request_count = 0
        self._immediate: deque[Outgoing] = deque()
        """What is due before anything recorded."""
        self._pending: deque[_PendingRequest] = deque()
        """Requests whose recorded counterpart has not been read yet, in order."""
        self._pending_bytes = 0
        self._read_count = -1
        self._ids: dict[bytes, bytes] = {}
        """By the recorded id of each request that was matched, the id of today."""
        self._progress_tokens: dict[bytes, bytes] = {}
        self._own_ids: dict[bytes, bytes] = {}
        """The recorded ids of the server's requests that were sent, each by itself."""
        self._plays: dict[int, Play] = {}
        """By the number of each request that is not answered to its end."""
        self._play_by_id: dict[Id, Play] = {}
        self._batches: dict[int, _Batch] = {}
        """By the number of each open request that came in a batch."""
        self._asked: dict[Id, deque[_AskedRequest]] = {}
        self._first_methods: dict[int, str] = {}
        self._begin_session(session)

    def _begin_session(self, session: int) -> None:
        self.session = session
        """The number of the recorded session that is played; a new handshake on the same pipe takes the next one."""
        self._played: dict[int, _PlayedSession] = {}
        """The sessions from which answers were taken: this one, and others without a handshake if it has none."""
        self._active: dict[int, _PlayedSession] = {}
        """Those of them in which something may be due."""
        self._last: dict[str, tuple[int, RecordedCall]] = {}
        """By key, the recorded request that was used last, with its session."""
        self._has_handshake = False
        self._nearest: Any = None
        self._play = self._played_session(session).play

    def _played_session(self, session: int) -> _PlayedSession:
        if session not in self._played:
            is_in_sequence = self._options.matching.rule == "sequence"
            calls = RecordedCalls(self._script, session, is_in_sequence=is_in_sequence)
            self._played[session] = _PlayedSession(calls, SessionPlay(self._script, session, self._options.speed))
        self._active[session] = self._played[session]
        return self._played[session]

    # ---- what the client sends

    def receive(self, raw: bytes, now_ns: int) -> list[int]:
        """Take a unit of bytes from the client: a message, a batch, or something else.

        Returns:
            A number for each request in it, from 0 over the whole conversation, by which `Outgoing.request` names it.
            Bytes that are no message get a number, too.
        """
        messages = read_messages(raw)
        tokens = tokens_of(raw) if any(isinstance(message, Request) for message in messages) else ()
        requests = [message for message in messages if isinstance(message, Request)]
        numbers = list(range(self._request_count, self._request_count + len(requests)))
        batch = _Batch(numbers) if messages[0].index is not None and requests else None
        taken: list[int] = []
        for position, message in enumerate(messages):
            if isinstance(message, Request):
                of_message = tokens[position] if position < len(tokens) else MessageTokens(None, None)
                taken.append(self._take_number())
                if batch is not None:
                    self._batches[taken[-1]] = batch
                request = _PendingRequest(taken[-1], message, of_message, batch, len(raw))
                self._take_request(request, now_ns)
            elif isinstance(message, InvalidMessage):
                if not requests:  # otherwise, it is for the recorded answer to the batch to name it
                    taken.append(self._take_number())
                    self._take_invalid(message, taken[-1], now_ns)
            else:
                self._take_other(message, now_ns)
        return taken

    def _take_invalid(self, message: InvalidMessage, number: int, now_ns: int) -> None:
        """Treat bytes that are no message as the recorded server did, or else refuse them."""
        recorded = self._play.clients.take_invalid()
        if recorded is None:
            self.usage.invalid_count += 1
            self._immediate.append(Outgoing(invalid_response(message), number, ends_request=True))
            return
        self._play.wake(recorded, now_ns)
        exchange = self._script.items[recorded].exchange
        http = self._script.http_answer(exchange) if exchange else None
        text = http.text.encode("utf-8", "replace") if http is not None else b""
        self._immediate.append(Outgoing(text, number, ends_request=True, http=http, failed_id=_NULL if http else b""))

    def _take_number(self) -> int:
        self._request_count += 1
        return self._request_count - 1

    def _take_other(self, message: Message, now_ns: int) -> None:
        if isinstance(message, Response):
            self._take_answer(message, now_ns)
        elif isinstance(message, Notification):
            if message.method == _CANCELLED:
                self._take_cancellation(message, now_ns)
            else:
                self._play.note_notification(message.method, now_ns)

    def _take_answer(self, response: Response, now_ns: int) -> None:
        waiting = self._asked.get(response.id) if response.id is not None else None
        if not waiting or response.id is None:
            return
        asked = waiting.popleft()
        if not waiting:
            del self._asked[response.id]
        self._played_session(asked.session).play.note_answer(asked.play, asked.call, now_ns)

    def _take_cancellation(self, message: Notification, now_ns: int) -> None:
        """Note a cancellation; unless the recorded client had cancelled, too, no answer follows it."""
        cancelled = member_of_params(message, "requestId")
        play = self._play_by_id.get(id_of(cancelled)) if cancelled is not None else None
        if play is None:
            self._play.note_notification(message.method, now_ns)
            return
        session_play = self._played_session(play.session).play
        session_play.clients.scan()
        recorded_id = id_of_token(play.recorded_id) if play.recorded_id else None
        for number in session_play.clients.notifications(_CANCELLED)[:100]:
            for recorded in read_messages(self._script.raw(self._script.items[number])):
                if not isinstance(recorded, Notification):
                    continue
                if id_of(member_of_params(recorded, "requestId")) == recorded_id:
                    session_play.clients.take_this_notification(_CANCELLED, number)
                    session_play.mark_sent(number, now_ns)
                    return
        self._end_play(play)

    def refuse_giant(self) -> None:
        """Answer a line that is too large to hold."""
        self.usage.invalid_count += 1
        self._immediate.append(Outgoing(GIANT_RESPONSE, None))

    def abandon(self, request: int) -> None:
        """Note that the client closed the HTTP exchange of a request."""
        play = self._plays.get(request)
        if play is not None:
            self._end_play(play)
        self._pending = deque(pending for pending in self._pending if pending.number != request)

    # ---- requests

    def _take_request(self, request: _PendingRequest, now_ns: int) -> None:
        message = request.message
        name = target_name(message.params) or ""
        try:
            request.key = self._options.matching.key_of(message.method, name, params_of(message))
        except RecursionError:
            request.key = ""
        if message.method == "initialize":
            self._choose_session(request)
        if not self._answer(request, now_ns):
            self._pending.append(request)
            self._pending_bytes += request.size

    def _answer(self, request: _PendingRequest, now_ns: int) -> bool:
        """Begin to answer a request; return False if it must wait until more has been read."""
        found = self._take_recorded(request.key)
        if found is None and request.message.method == "ping":
            self._end_request(request, pong(_id_of(request)))
            return True
        if found is None:
            if not self._script.is_complete and not self._is_of_other_era(request):
                return False
            found = self._last.get(request.key) if self._played[self.session].calls.repeats else None
        if found is None:
            self._miss(request, now_ns)
        else:
            self._begin_play(request, *found, now_ns)
        return True

    def _take_recorded(self, key: str) -> tuple[int, RecordedCall] | None:
        """Use the next recorded request with a key; returns it with its session, or None."""
        for session in self._sessions_to_search():
            recorded = self._played_session(session).calls.take(key)
            if recorded is not None:
                self._last[key] = session, recorded
                return session, recorded
        return None

    def _sessions_to_search(self) -> Iterator[int]:
        """Yields this session and, if it has no handshake, all others without one, as those are guesses.

        A client may have been taken for several, such as one that does not name itself.
        """
        yield self.session
        if self._first_method(self.session) != "initialize":
            for session in self._script.sessions:
                if session != self.session and self._first_method(session) not in ("", "initialize"):
                    yield session

    def _begin_play(self, request: _PendingRequest, session: int, recorded: RecordedCall, now_ns: int) -> None:
        self.usage.add_use(recorded.call)
        message, play = request.message, Play(request.number, session, recorded.call, recorded.item, now_ns)
        recorded_raw = self._script.raw(recorded.item)
        recorded_tokens = tokens_of(recorded_raw)
        index = recorded.position or 0
        of_recorded = recorded_tokens[index] if index < len(recorded_tokens) else MessageTokens(None, None)
        play.id_token, play.progress_token = _id_of(request), request.tokens.progress_token or b""
        play.is_from_batch = _is_array(recorded_raw)
        play.recorded_id, play.recorded_progress = of_recorded.id or b"", of_recorded.progress_token or b""
        if play.recorded_id:
            self._ids[play.recorded_id] = play.id_token
        if play.recorded_progress and play.progress_token:
            self._progress_tokens[play.recorded_progress] = play.progress_token
        if message.method == "initialize":
            self._has_handshake = True
            self._note_revision(message, recorded_raw, index)
        self._plays[request.number] = play
        if message.id.is_answerable:
            self._play_by_id[message.id] = play
        self._played_session(session).play.begin(play, now_ns)

    def _note_revision(self, message: Request, recorded_raw: bytes, index: int) -> None:
        recorded = read_messages(recorded_raw)[index]
        asked, known = member_of_params(message, "protocolVersion"), None
        if isinstance(recorded, Request):
            known = member_of_params(recorded, "protocolVersion")
        if isinstance(asked, str) and isinstance(known, str) and asked != known:
            self.usage.note_revision(asked, known)

    def _choose_session(self, request: _PendingRequest) -> None:
        """Take the next recorded session with a handshake if this one's has been used, or if it has none."""
        sessions = list(self._script.sessions)
        if not self._has_handshake and self._script.requests(self.session, request.key):
            return
        start = sessions.index(self.session) + 1 if self.session in sessions else len(sessions)
        for session in sessions[start:]:
            if self._script.requests(session, request.key):
                self._begin_session(session)
                return

    def _first_method(self, session: int) -> str:
        """Returns the method of the first request in a recorded session; empty if it has not been read."""
        if session not in self._first_methods:
            for number in self._script.items_of(session)[:1_000]:
                item = self._script.items[number]
                if item.sender == "client" and item.kind == "request":
                    self._first_methods[session] = item.method
                    break
        return self._first_methods.get(session, "")

    def _is_of_other_era(self, request: _PendingRequest) -> bool:
        """Whether a request opens a conversation of the era that was not recorded; a client then tries the other."""
        first, method = self._first_method(self.session), request.message.method
        if method == "server/discover":
            return first == "initialize"
        return method == "initialize" and bool(first) and first != "initialize" and self._is_modern

    @property
    def _is_modern(self) -> bool:
        return self._first_method(self.session) == "server/discover"

    def _miss(self, request: _PendingRequest, now_ns: int) -> None:
        from mcpproxy.mock.misses import NearestRequests, error_of_miss

        if self._nearest is None:
            self._nearest = NearestRequests(self._script, self.session, self._options.matching)
        message = request.message
        name = target_name(message.params) or ""
        found = self._nearest.find(message.method, name, params_of(message))
        self.usage.add_miss(Miss(message.method, name, found[0] if found else None))
        if found and self._options.on_miss == "nearest":
            self._begin_play(request, self.session, found[1], now_ns)
            return
        if message.method == "initialize" and self._is_modern:
            asked = member_of_params(message, "protocolVersion")
            self._end_request(request, unsupported_version_response(_id_of(request), asked, self._nearest.revisions))
            return
        is_known = self._nearest.has_method(message.method)
        nearest = found[0] if found else None
        self._end_request(request, error_of_miss(_id_of(request), message.method, name, nearest, is_known=is_known))

    def _end_request(self, request: _PendingRequest, raw: bytes) -> None:
        """Answer a request with something that was not recorded."""
        self._immediate += self._answer_in_batch(_BatchAnswer(request.number, raw))

    # ---- what is due

    def due(self, now_ns: int) -> list[Outgoing]:
        """Returns what is to be sent now, in order; at most some, and `next_due_ns` is 0 if there is more."""
        self._retry_pending(now_ns)
        outgoing: list[Outgoing] = []
        size = 0
        while len(outgoing) < MAX_DUE_AT_ONCE and size < MAX_DUE_BYTES:
            if self._immediate:
                outgoing.append(self._immediate.popleft())
            else:
                delivery = self._next_delivery(now_ns)
                if delivery is None:
                    break
                outgoing += self._outgoing_of(delivery)
            size += len(outgoing[-1].raw) if outgoing else 0
        return outgoing

    def _next_delivery(self, now_ns: int) -> Delivery | None:
        for session, played in list(self._active.items()):
            delivery = played.play.take_due(now_ns)
            if delivery is not None:
                return delivery
            if session != self.session and played.play.is_idle:
                del self._active[session]
        return None

    def _retry_pending(self, now_ns: int) -> None:
        read_count = len(self._script.items) + self._script.is_complete
        # With very many of them, asking for all at each step would take quadratic time.
        is_worth_it = len(self._pending) <= 100 or read_count > self._read_count * 1.1 or self._script.is_complete
        if not self._pending or read_count == self._read_count or not is_worth_it:
            return
        self._read_count = read_count
        waiting, self._pending = self._pending, deque()
        for request in waiting:
            if request.message.method == "initialize":
                self._choose_session(request)
            if self._answer(request, now_ns):
                self._pending_bytes -= request.size
            else:
                self._pending.append(request)

    @property
    def next_due_ns(self) -> int | None:
        """When something will be due next; None if that depends on the client, or on the growth of the script."""
        if self._immediate:
            return 0
        times = [played.play.next_due_ns for played in self._active.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def pending_bytes(self) -> int:
        """The size of the requests that wait for the script to grow: with many, transports read no more."""
        return self._pending_bytes

    @property
    def is_reading_on(self) -> bool:
        """Whether a request waits for something that may be read later."""
        return bool(self._pending) or any(played.play.is_reading_on for played in self._active.values())

    @property
    def has_server_ended(self) -> bool:
        """Whether the recorded server had ended by itself where the conversation is now."""
        ending, sessions = self._script.ending, self._script.sessions
        if ending is None or not ending.by_server or (sessions and sessions[-1] != self.session):
            return False
        if self._pending or self.next_due_ns is not None or self.usage.miss_count:
            return False
        return self._play.is_all_sent

    # ---- from an item to bytes

    def _outgoing_of(self, delivery: Delivery) -> list[Outgoing]:
        item, play = delivery.item, delivery.play
        if item is None:
            assert play is not None
            return self._ending_of(play)
        raw = self._script.raw(item)
        if item.kind == "stderr":
            return [Outgoing(raw, None, is_stderr=True)]
        if item.kind == "priming":
            return [self._outgoing(b"", delivery, item, is_priming=True)]
        self._note_server_requests(item, raw, play)
        if play is None:
            if item.kind == "response" and self._hits_by_chance(raw):
                return []
            maps = Substitutes(self._ids, self._progress_tokens, self._own_ids)
            return [self._outgoing(translated(raw, maps), delivery, item)]
        maps = _substitutes(play, self._ids, self._own_ids)
        if item.kind == "response" and item.call == play.call:
            return self._last_of(play, translated(raw, _answer_substitutes(maps, play, raw)), delivery, item)
        if any(member.call == play.call and member.kind == "response" for member in item.members):
            return self._last_of(play, translated(raw, maps), delivery, item)
        return [self._outgoing(translated(raw, maps), delivery, item)]

    def _hits_by_chance(self, raw: bytes) -> bool:
        """Whether a response that fits no recorded call has the id of a request that waits today."""
        ids = [tokens.id for tokens in tokens_of(raw) if tokens.id is not None and tokens.id not in self._ids]
        return any(id_of_token(token) in self._play_by_id for token in ids)

    def _last_of(self, play: Play, raw: bytes, delivery: Delivery, item: Item) -> list[Outgoing]:
        self._end_play(play, leaves_batch=False)
        is_array = _is_array(raw)
        if play.request in self._batches and (is_array or not play.is_from_batch):
            ids = play.recorded_id, play.id_token
            answer = _BatchAnswer(play.request, _own_answer(raw, item, play), self._http_of(item, play), item, ids)
            return self._answer_in_batch(answer)
        self._leave_batch(play.request)
        own = _own_answer(raw, item, play) if is_array else raw
        return [self._outgoing(own, delivery, item)._replace(ends_request=True, ends_stream=False)]

    def _answer_in_batch(self, answer: _BatchAnswer) -> list[Outgoing]:
        """Returns the answer to a request; if it came in a batch, all answers once they are complete."""
        batch = self._batches.pop(answer.request, None)
        if batch is None:
            return [Outgoing(answer.raw, answer.request, ends_request=True, http=answer.http)]
        batch.open_requests.discard(answer.request)
        batch.answers.append(answer)
        return self._batch_answer(batch)

    def _leave_batch(self, request: int) -> None:
        """Note that a request of a batch gets no answer in the common one."""
        batch = self._batches.pop(request, None)
        if batch is not None:
            batch.open_requests.discard(request)
            self._immediate += self._batch_answer(batch)

    def _batch_answer(self, batch: _Batch) -> list[Outgoing]:
        if batch.open_requests or not batch.answers:
            return []
        first, *others = batch.answers
        recorded = self._recorded_batch(batch.answers)
        raw = b"[" + b",".join([answer.raw for answer in batch.answers]) + b"]" if recorded is None else recorded
        batch.answers = []
        ends = [Outgoing(b"", answer.request, ends_request=True) for answer in others]
        return [Outgoing(raw, first.request, ends_request=True, http=first.http), *ends]

    def _recorded_batch(self, answers: list[_BatchAnswer]) -> bytes | None:
        """Returns the recorded batch that answers exactly these requests, translated; None if there is none."""
        item = answers[0].item
        if item is None or any(answer.item is None or answer.item.number != item.number for answer in answers):
            return None
        if sum(member.call >= 0 for member in item.members) > len(answers):
            return None
        return translated(self._script.raw(item), Substitutes(dict(answer.ids for answer in answers), {}))

    def _outgoing(self, raw: bytes, delivery: Delivery, item: Item, *, is_priming: bool = False) -> Outgoing:
        play, following = delivery.play, delivery.next_item
        http = self._http_of(item, play)
        ends_stream = False
        if item.exchange and play is not None:
            own = self._script.http_answer(item.exchange)
            is_last = following is None or following.exchange != item.exchange
            ends_stream = is_last and own is not None and bool(own.ended_by)
        return Outgoing(
            raw,
            None if play is None else play.request,
            event_id=item.event_id,
            is_priming=is_priming,
            http=http,
            ends_stream=ends_stream,
        )

    def _http_of(self, item: Item, play: Play | None) -> HttpAnswer | None:
        exchange = item.exchange if play is None else play.item.exchange
        return self._script.http_answer(exchange) if exchange else None

    def _note_server_requests(self, item: Item, raw: bytes, play: Play | None) -> None:
        """Note which answers of the client are awaited."""
        is_request = item.kind == "request" or any(member.kind == "request" for member in item.members)
        if not is_request:
            return
        for message in read_messages(raw, "s2c"):
            if isinstance(message, Request):
                call = item.members[message.index].call if message.index is not None and item.members else item.call
                self._asked.setdefault(message.id, deque()).append(_AskedRequest(item.session, play, call))
        for tokens in tokens_of(raw):
            if tokens.id is not None:
                self._own_ids[tokens.id] = tokens.id

    def _ending_of(self, play: Play) -> list[Outgoing]:
        """Returns what ends a call that was never answered: how its HTTP exchange failed, or nothing."""
        self._end_play(play)
        exchange = play.item.exchange
        answer = self._script.http_answer(exchange) if exchange else None
        if answer is None or (answer.status < _MIN_FAILURE_STATUS and answer.ended_by in ("", "client")):
            return []
        text = answer.text.encode("utf-8", "replace")
        return [Outgoing(text, play.request, ends_request=True, http=answer, failed_id=play.id_token)]

    def _end_play(self, play: Play, *, leaves_batch: bool = True) -> None:
        self._played_session(play.session).play.end(play)
        self._plays.pop(play.request, None)
        if leaves_batch:
            self._leave_batch(play.request)
        for id_, other in ((id_, self._play_by_id[id_]) for id_ in _ids_of(play) if id_ in self._play_by_id):
            if other is play:
                del self._play_by_id[id_]


def _substitutes(play: Play, all_ids: dict[bytes, bytes], own_ids: dict[bytes, bytes]) -> Substitutes:
    ids = ChainMap({play.recorded_id: play.id_token} if play.recorded_id else {}, all_ids)
    has_tokens = play.recorded_progress and play.progress_token
    return Substitutes(ids, {play.recorded_progress: play.progress_token} if has_tokens else {}, own_ids)


def _answer_substitutes(maps: Substitutes, play: Play, raw: bytes) -> Substitutes:
    """Returns the substitutes for a response; a server that changed the type of the id changes that of today's."""
    for tokens in tokens_of(raw):
        if tokens.id is None or tokens.id in maps.ids or not play.recorded_id:
            continue
        recorded, today = id_of_token(play.recorded_id), id_of_token(play.id_token)
        changed = converted_id(today).text.encode("utf-8", "replace")
        if converted_id(recorded) == id_of_token(tokens.id) and today.type == recorded.type and _is_json(changed):
            return maps._replace(ids={tokens.id: changed})
    return maps


def _is_json(token: bytes) -> bool:
    try:
        parse_exactly(token)
    except (ValueError, RecursionError):
        return False
    return True


def _is_array(raw: bytes) -> bool:
    return raw.lstrip()[:1] == b"["


def _own_answer(raw: bytes, item: Item, play: Play) -> bytes:
    """Returns the response to one request from what may be a batch."""
    if not _is_array(raw):
        return raw
    members = [raw[span.start : span.end] for span in spans_of(raw)]
    calls = [member.call for member in item.members]
    position = calls.index(play.call) if play.call in calls else 0
    return members[position] if position < len(members) else raw


def _id_of(request: _PendingRequest) -> bytes:
    return request.tokens.id or _NULL


def _ids_of(play: Play) -> list[Id]:
    return [id_of_token(play.id_token)] if play.id_token else []
