"""Conversation: what a mock sends to one client, regardless of the transport (sans-IO).

A request is answered by everything that the server sent for it in the recording, in the recorded order: progress, log
messages, requests to the client, and the response. An item waits for what the client had sent between the request and
the item in the recording: always for the answer to a server request, and for the cancellation of the request itself;
for other items at most `PATIENCE_NS`, because another client may not send them at all. Items that belong to no request
follow what the client had sent last before them, or anything that it had sent later.

Requests that match the same recorded ones get their answers in the recorded order; when all were used, the last answer
is repeated. Where the answer has not been read yet, a request waits for the script to grow: what grows it calls `due`
again.
"""

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from analysis.conversation.message import (
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    id_of,
    id_of_token,
)
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.facts import target_name
from analysis.playback.incoming import client_messages_in, member_of_params, params_of, server_messages_in
from analysis.playback.items import HttpAnswer, Item
from analysis.playback.json_spans import spans_of
from analysis.playback.script import Script
from analysis.playback.translation import MessageTokens, Substitutes, tokens_of, translated
from mcpproxy.mock.answer_bytes import answer_bytes, is_array, item_bytes
from mcpproxy.mock.batch_parts import BatchParts
from mcpproxy.mock.batches import Batches, MemberAnswer
from mcpproxy.mock.errors import GIANT_RESPONSE, invalid_response, pong, unsupported_version_response
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.outgoing import Outgoing
from mcpproxy.mock.played_sessions import PlayedSessions
from mcpproxy.mock.recorded_calls import RecordedCall
from mcpproxy.mock.session_play import PATIENCE_NS, Delivery, Play
from mcpproxy.mock.usage import Miss, Usage

if TYPE_CHECKING:
    from mcpproxy.mock.passing import RealServer  # only --on-miss pass needs it

__all__ = ["PATIENCE_NS", "Conversation"]

MAX_DUE_AT_ONCE: Final = 64
"""About how many units `due` returns at once: transports ask for more when they have written these."""
MAX_DUE_BYTES: Final = 1 << 20
"""At how many bytes `due` returns, even if there are fewer."""
_CANCELLED: Final = "notifications/cancelled"
_MAX_CANCELLATIONS: Final = 100
"""How many recorded cancellations are compared with one that the client sends."""
_MIN_FAILURE_STATUS: Final = 300
_NULL: Final = b"null"


class _ClientRequest:
    """A request that the client has sent."""

    __slots__ = ("key", "message", "number", "raw", "tokens")

    def __init__(self, number: int, message: Request, tokens: MessageTokens, raw: bytes, key: str) -> None:
        self.number, self.message, self.tokens, self.raw, self.key = number, message, tokens, raw, key

    @property
    def id_token(self) -> bytes:
        """Its id as a JSON token."""
        return self.tokens.id or _NULL

    @property
    def name(self) -> str:
        """The tool, prompt or URI that it names; empty if it names none."""
        return target_name(self.message.params) or ""


class _ServerRequest:
    """A request of the server that was sent and not answered yet."""

    __slots__ = ("call", "play", "session")

    def __init__(self, session: int, play: Play | None, call: int) -> None:
        self.session, self.play, self.call = session, play, call


class Conversation:
    """One client's conversation. Not safe for several threads; times are those of any monotonic clock."""

    def __init__(
        self,
        script: Script,
        session: int,
        options: MockOptions,
        use: Usage | None = None,
        real_server: "RealServer | None" = None,
        parts: BatchParts | None = None,
    ) -> None:
        """Begin a conversation that plays one recorded session.

        Args:
            script: the script; something else grows it.
            session: the number of the session.
            options: how requests are matched and answered.
            use: the usage of the script, if several conversations share it.
            real_server: the server that answers requests that were not recorded, with `--on-miss pass`.
            parts: the bytes of the script's items, if several conversations share what is kept of them.
        """
        self.usage = use or Usage()
        self._script, self._options, self._real_server = script, options, real_server
        self._sessions = PlayedSessions(script, session, options)
        self._request_count = 0
        self._immediate: deque[Outgoing] = deque()
        """What is due before anything recorded."""
        self._own_answers: deque[Outgoing] = deque()
        """Answers that were not recorded, in the order of their requests."""
        self._pending: deque[_ClientRequest] = deque()
        """Requests whose recorded counterpart has not been read yet, in order."""
        self._pending_keys: Counter[str] = Counter()
        self._pending_bytes = 0
        self._read_count = -1
        self._passed: dict[int, _ClientRequest] = {}
        """The requests that wait for the real server, by number."""
        self._ids: dict[bytes, bytes] = {}
        """By the recorded id of each request that was matched, the id that the client uses now."""
        self._progress_tokens: dict[bytes, bytes] = {}
        self._own_ids: dict[bytes, bytes] = {}
        """The recorded ids of the server's requests that were sent, each by itself."""
        self._plays: dict[int, Play] = {}
        """By the number of each request that is not answered to its end."""
        self._play_by_id: dict[Id, Play] = {}
        self._batches = Batches(script)
        self._parts = parts or BatchParts(script)
        self._noted_batches: set[int] = set()
        self._asked: dict[Id, deque[_ServerRequest]] = {}
        self._nearest: Any = None
        self._has_noted_revision = False

    def close(self) -> None:
        """End the real server, if there is one; this can take some seconds."""
        if self._real_server is not None:
            self._real_server.close()

    # ---- what the client sends

    def receive(self, raw: bytes, now_ns: int) -> list[int]:
        """Take a unit of bytes from the client: a message, a batch, or something else.

        Returns:
            A number for each request in it, from 0 over the whole conversation, by which `Outgoing.request` names it.
            Bytes that are not a message get a number, too.
        """
        messages = client_messages_in(raw)
        has_requests = any(isinstance(message, Request) for message in messages)
        tokens = tokens_of(raw) if has_requests else ()
        is_batch = messages[0].index is not None
        raws = [raw[span.start : span.end] for span in spans_of(raw)] if is_batch else [raw]
        requests: list[_ClientRequest] = []
        others: list[tuple[Message, bytes]] = []
        invalid: InvalidMessage | None = None
        for position, message in enumerate(messages):
            own_raw = raws[position] if position < len(raws) else raw
            if isinstance(message, Request):
                own_tokens = tokens[position] if position < len(tokens) else MessageTokens(None, None)
                key = self._key_of(message)
                requests.append(_ClientRequest(self._take_number(), message, own_tokens, own_raw, key))
            elif isinstance(message, InvalidMessage):
                invalid = message
            else:
                others.append((message, own_raw))
        if requests and is_batch:
            self._batches.add([request.number for request in requests])
        for request in requests:
            self._take_request(request, now_ns)
        is_recorded = is_batch and not requests and self._sessions.main.note_batch(now_ns)
        for message, own_raw in others:
            if self._real_server is None or not self._real_server.pass_message(own_raw):
                self._take_other(message, now_ns)
        if requests or invalid is None:  # in a batch, the recorded answer says what is invalid
            return [request.number for request in requests]
        number = self._take_number()
        if is_recorded:
            self._immediate.append(Outgoing(b"", number, ends_request=True))
        else:
            self._take_invalid(invalid, number, now_ns)
        return [number]

    def _take_invalid(self, message: InvalidMessage, number: int, now_ns: int) -> None:
        """Treat bytes that are not a message as the recorded server did, or else refuse them."""
        recorded = self._sessions.main.clients.take_invalid()
        if recorded is None:
            self.usage.invalid_count += 1
            self._immediate.append(Outgoing(invalid_response(message), number, ends_request=True))
            return
        self._sessions.main.wake(recorded, now_ns)
        exchange = self._script.items[recorded].exchange
        http = self._script.http_answer(exchange) if exchange else None
        text = http.text.encode("utf-8", "replace") if http is not None else b""
        self._immediate.append(Outgoing(text, number, ends_request=True, http=http, failed_id=_NULL if http else b""))

    def _take_number(self) -> int:
        self._request_count += 1
        return self._request_count - 1

    def _key_of(self, message: Request) -> str:
        try:
            return self._options.matching.key_of(message.method, target_name(message.params) or "", params_of(message))
        except RecursionError:
            return ""

    def _take_other(self, message: Message, now_ns: int) -> None:
        if isinstance(message, Response):
            self._take_answer(message, now_ns)
        elif isinstance(message, Notification):
            if message.method == _CANCELLED:
                self._take_cancellation(message, now_ns)
            else:
                self._sessions.main.note_notification(message.method, now_ns)

    def _take_answer(self, response: Response, now_ns: int) -> None:
        waiting = self._asked.get(response.id) if response.id is not None else None
        if not waiting or response.id is None:
            return
        asked = waiting.popleft()
        if not waiting:
            del self._asked[response.id]
        self._sessions.play_of(asked.session).note_answer(asked.play, asked.call, now_ns)

    def _take_cancellation(self, message: Notification, now_ns: int) -> None:
        """Note a cancellation; unless the recorded client had cancelled, too, no answer follows it."""
        cancelled = member_of_params(message, "requestId")
        play = self._play_by_id.get(id_of(cancelled)) if cancelled is not None else None
        if play is None:
            self._sessions.main.note_notification(message.method, now_ns)
            return
        session_play = self._sessions.play_of(play.session)
        session_play.clients.scan()
        recorded_id = id_of_token(play.recorded_id) if play.recorded_id else None
        for number in session_play.clients.notifications(_CANCELLED)[:_MAX_CANCELLATIONS]:
            for recorded in client_messages_in(self._script.raw(self._script.items[number])):
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
        if request in self._passed and self._real_server is not None:
            del self._passed[request]
            self._real_server.abandon(request)
        for pending in list(self._pending):
            if pending.number == request:
                self._pending.remove(pending)
                self._forget_pending(pending)

    # ---- requests

    def _take_request(self, request: _ClientRequest, now_ns: int) -> None:
        if request.message.method == "initialize" and self._real_server is not None:
            self._real_server.note_initialize(request.raw)
        if self._pending_keys[request.key] or not self._answer(request, now_ns):
            self._pending.append(request)
            self._pending_keys[request.key] += 1
            self._pending_bytes += len(request.raw)

    def _forget_pending(self, request: _ClientRequest) -> None:
        self._pending_keys[request.key] -= 1
        if not self._pending_keys[request.key]:
            del self._pending_keys[request.key]
        self._pending_bytes -= len(request.raw)

    def _answer(self, request: _ClientRequest, now_ns: int) -> bool:
        """Begin to answer a request; return False if it must wait until more has been read."""
        method = request.message.method
        if method == "initialize":
            self._sessions.move_to_handshake(request.key)
        found = self._sessions.take(request.key, request.message)
        if found is None and method == "ping":
            self._answer_directly(request, pong(request.id_token))
            return True
        if found is None:
            if not self._script.is_complete and not self._sessions.is_of_other_era(method):
                return False
            found = self._sessions.last(request.key)
        if found is None:
            self._miss(request, now_ns)
        else:
            self._begin_play(request, *found, now_ns)
        return True

    def _begin_play(self, request: _ClientRequest, session: int, recorded: RecordedCall, now_ns: int) -> None:
        self.usage.add_use(recorded.call)
        message, play = request.message, Play(request.number, session, recorded.call, recorded.item, now_ns)
        recorded_raw, recorded_tokens = self._parts.raw(recorded.item), self._parts.tokens(recorded.item)
        position = recorded.position or 0
        of_recorded = recorded_tokens[position] if position < len(recorded_tokens) else MessageTokens(None, None)
        play.id, play.id_token = message.id, request.id_token
        play.progress_token = request.tokens.progress_token or b""
        play.is_from_batch = is_array(recorded_raw)
        play.recorded_id, play.recorded_progress = of_recorded.id or b"", of_recorded.progress_token or b""
        if play.recorded_id:
            self._ids[play.recorded_id] = play.id_token
        if play.recorded_progress and play.progress_token:
            self._progress_tokens[play.recorded_progress] = play.progress_token
        if message.method == "initialize":
            self._sessions.has_handshake = True
        if not self._has_noted_revision:
            self._has_noted_revision = True
            self._note_revision(message, recorded_raw, position)
        self._plays[request.number] = play
        if message.id.is_answerable:
            self._play_by_id[message.id] = play
        self._sessions.play_of(session).begin(play, now_ns)

    def _note_revision(self, message: Request, recorded_raw: bytes, position: int) -> None:
        """Tell the user if the first request names another revision than the recorded one."""
        messages = client_messages_in(recorded_raw)
        recorded = messages[position] if position < len(messages) else None
        if isinstance(recorded, Request):
            asked, known = _revision_of(message), _revision_of(recorded)
            if isinstance(asked, str) and isinstance(known, str) and asked != known:
                self.usage.note_revision(asked, known)

    def _miss(self, request: _ClientRequest, now_ns: int) -> None:
        """Treat a request that was not recorded as the user chose."""
        if self._real_server is not None:
            self._passed[request.number] = request
            self._real_server.pass_request(request.raw, request.number)
            return
        from mcpproxy.mock.misses import NearestRequests, error_of_miss, next_request

        if self._nearest is None:
            self._nearest = NearestRequests(self._script, self._options.matching)
        message, name, session = request.message, request.name, self._sessions.session
        answers_with_nearest = self._options.on_miss == "nearest"
        params = params_of(message)
        found = self._nearest.find(message.method, name, params, session, is_of_session=answers_with_nearest)
        following = None if answers_with_nearest else self._sessions.next_in_sequence
        nearest = next_request(following) if following else found[0] if found else None
        if self._sessions.is_of_other_era(message.method):
            self.usage.probes.add(message.method)
        else:
            self.usage.add_miss(Miss(message.method, name, nearest))
        if found and answers_with_nearest:
            self._begin_play(request, session, found[1], now_ns)
            return
        if message.method == "initialize" and self._sessions.is_modern:
            asked, revisions = member_of_params(message, "protocolVersion"), self._nearest.revisions
            self._answer_directly(request, unsupported_version_response(request.id_token, asked, revisions))
            return
        is_known = self._nearest.has_method(message.method)
        error = error_of_miss(request.id_token, message.method, name, nearest, is_known=is_known)
        self._answer_directly(request, error)

    def _answer_directly(self, request: _ClientRequest, raw: bytes) -> None:
        """Answer a request with something that was not recorded, after what is due for earlier ones."""
        self._own_answers += self._batches.answer(MemberAnswer(request.number, raw))

    # ---- what is due

    def due(self, now_ns: int) -> list[Outgoing]:
        """Returns what is to be sent now, in order; at most some, and `next_due_ns` is 0 if there is more."""
        self._retry_pending(now_ns)
        self._take_from_real_server()
        outgoing: list[Outgoing] = []
        size = 0
        while len(outgoing) < MAX_DUE_AT_ONCE and size < MAX_DUE_BYTES:
            if self._immediate:
                outgoing.append(self._immediate.popleft())
            else:
                delivery = self._sessions.take_due(now_ns)
                if delivery is None and not self._own_answers:
                    break
                outgoing += self._take_own_answers(delivery)
                outgoing += self._outgoing_of(delivery) if delivery is not None else ()
            size += len(outgoing[-1].raw) if outgoing else 0
        return outgoing

    def _take_own_answers(self, delivery: Delivery | None) -> list[Outgoing]:
        """Take the answers that were not recorded whose requests came before that of a delivery; without one, all."""
        if delivery is not None and delivery.play is None:
            return []
        end = self._request_count if delivery is None or delivery.play is None else delivery.play.request
        taken: list[Outgoing] = []
        while self._own_answers and (self._own_answers[0].request or 0) <= end and len(taken) < MAX_DUE_AT_ONCE:
            taken.append(self._own_answers.popleft())
        return taken

    def _take_from_real_server(self) -> None:
        if self._real_server is None:
            return
        for unit in self._real_server.received():
            if unit.ends_request and unit.request is not None:
                passed = self._passed.pop(unit.request, None)
                if passed is not None and unit.failure:
                    self.usage.add_miss(Miss(passed.message.method, passed.name, None, unit.failure))
                self._immediate += self._batches.answer(MemberAnswer(unit.request, unit.raw, unit.http))
            else:
                self._immediate.append(unit)

    def _retry_pending(self, now_ns: int) -> None:
        read_count = len(self._script.items) + self._script.is_complete
        # With very many of them, asking for all at each step would take quadratic time.
        is_worth_it = len(self._pending) <= 100 or read_count > self._read_count * 1.1 or self._script.is_complete
        if not self._pending or read_count == self._read_count or not is_worth_it:
            return
        self._read_count = read_count
        waiting, self._pending = self._pending, deque()
        for request in waiting:
            if self._answer(request, now_ns):
                self._forget_pending(request)
            else:
                self._pending.append(request)

    @property
    def next_due_ns(self) -> int | None:
        """When something will be due next; None if that depends on the client, or on the growth of the script."""
        return 0 if self._immediate or self._own_answers else self._sessions.next_due_ns

    @property
    def pending_bytes(self) -> int:
        """The size of the requests that wait for the script to grow: with many, transports read no more."""
        return self._pending_bytes

    @property
    def is_reading_on(self) -> bool:
        """Whether a request waits for something that may be read later, or for the real server."""
        return bool(self._pending or self._passed) or self._sessions.is_reading_on

    @property
    def has_server_ended(self) -> bool:
        """Whether the recorded server had ended by itself where the conversation is now."""
        ending = self._script.ending
        if ending is None or not ending.by_server or self._pending or self.usage.miss_count:
            return False
        if self._immediate or self._own_answers:
            return False
        return self._real_server is None and self._sessions.is_at_end

    # ---- from an item to bytes

    def _outgoing_of(self, delivery: Delivery) -> list[Outgoing]:
        item, play = delivery.item, delivery.play
        if item is None:
            assert play is not None
            return self._ending_of(play)
        raw = self._parts.raw(item)
        if item.kind == "stderr":
            return [Outgoing(raw, None, is_stderr=True)]
        if item.kind == "priming":
            return [self._outgoing(b"", delivery, item)._replace(is_priming=True)]
        self._note_server_requests(item, raw, play)
        if play is None:
            if self._script.is_response_text(item) or not self._is_known_answer(raw):
                return []
            raw = translated(raw, Substitutes(self._ids, self._progress_tokens, self._own_ids))
            return [self._outgoing(raw, delivery, item)]
        if self._script.answer_of(play.call) == item.number:
            return self._last_of(play, raw, delivery, item)
        outgoing = self._outgoing(item_bytes(raw, play, self._ids, self._own_ids), delivery, item)
        return [outgoing._replace(request=None) if play.is_answered else outgoing]

    def _is_known_answer(self, raw: bytes) -> bool:
        """Whether each response in it, which fits no waiting call, answers a request of today once more.

        The id of a request that was not sent, or that is another one today, would be taken for the answer to that.
        """
        for message, tokens in zip(server_messages_in(raw), tokens_of(raw), strict=False):
            if not isinstance(message, Response) or tokens.id in (None, _NULL):
                continue
            today = self._ids.get(tokens.id)
            waiting = None if today is None else self._play_by_id.get(id_of_token(today))
            if today is None or (waiting is not None and waiting.recorded_id != tokens.id):
                return False
        return True

    def _last_of(self, play: Play, recorded_raw: bytes, delivery: Delivery, item: Item) -> list[Outgoing]:
        self._forget(play)
        is_alone = play.is_from_batch or play.request in self._batches
        raw = answer_bytes(self._parts.member_of(item, play.call) if is_alone else recorded_raw, play)
        if play.request in self._batches and (is_array(recorded_raw) or not play.is_from_batch):
            ids = play.recorded_id, play.id_token
            return self._batches.answer(MemberAnswer(play.request, raw, self._http_of(item, play), item, ids))
        self._immediate += self._batches.leave(play.request)
        return [self._outgoing(raw, delivery, item)._replace(ends_request=True, ends_stream=False)]

    def _outgoing(self, raw: bytes, delivery: Delivery, item: Item) -> Outgoing:
        play, following = delivery.play, delivery.next_item
        ends_stream = False
        if item.exchange and play is not None and not (following and following.exchange == item.exchange):
            ends_stream = self._has_broken_after(item, play)
        request = None if play is None else play.request
        http = self._http_of(item, play)
        return Outgoing(raw, request, event_id=item.event_id, http=http, ends_stream=ends_stream, event=item.event)

    def _has_broken_after(self, item: Item, play: Play) -> bool:
        """Whether the stream of a call ended after an item, although its response came later, or never."""
        exchange, answer = self._script.http_answer(item.exchange), self._script.answer_of(play.call)
        if exchange is None or not exchange.ended_by or play.call not in exchange.calls:
            return False
        return answer is None or self._script.items[answer].exchange != item.exchange

    def _http_of(self, item: Item, play: Play | None) -> HttpAnswer | None:
        own = self._script.http_answer(item.exchange) if item.exchange else None
        if play is None or not play.item.exchange:
            return own
        of_request = self._script.http_answer(play.item.exchange)
        has_failed = of_request is not None and of_request.status >= _MIN_FAILURE_STATUS
        return own if has_failed else of_request  # after a redirect, the answer came in another exchange

    def _note_server_requests(self, item: Item, raw: bytes, play: Play | None) -> None:
        """Note which answers of the client are awaited."""
        if item.kind == "batch":
            if item.number in self._noted_batches:
                return
            self._noted_batches.add(item.number)
        if item.kind != "request" and not any(member.kind == "request" for member in item.members):
            return
        for message in server_messages_in(raw):
            if isinstance(message, Request):
                call = item.members[message.index].call if message.index is not None and item.members else item.call
                self._asked.setdefault(message.id, deque()).append(_ServerRequest(item.session, play, call))
        self._own_ids |= {tokens.id: tokens.id for tokens in tokens_of(raw) if tokens.id is not None}

    def _ending_of(self, play: Play) -> list[Outgoing]:
        """Returns what ends a call that was never answered: how its HTTP exchange failed, or nothing."""
        exchange = play.item.exchange
        answer = self._script.http_answer(exchange) if exchange else None
        if answer is None or (answer.status < _MIN_FAILURE_STATUS and answer.ended_by in ("", "client")):
            # The client goes on waiting for it.
            self._sessions.play_of(play.session).end(play)
            return self._batches.leave(play.request)
        self._end_play(play)
        text = answer.text.encode("utf-8", "replace")
        return [Outgoing(text, play.request, ends_request=True, http=answer, failed_id=play.id_token)]

    def _end_play(self, play: Play) -> None:
        self._sessions.play_of(play.session).end(play)
        self._immediate += self._batches.leave(play.request)
        self._forget(play)

    def _forget(self, play: Play) -> None:
        self._plays.pop(play.request, None)
        if play.id is not None and self._play_by_id.get(play.id) is play:
            del self._play_by_id[play.id]


def _revision_of(message: Request) -> object:
    """Returns the revision that a request names, in its params or in its `_meta`; None if it names none."""
    return member_of_params(message, "protocolVersion") or message.meta.get(PROTOCOL_VERSION)
