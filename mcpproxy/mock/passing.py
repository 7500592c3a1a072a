"""Passes on what was not recorded to the real server, through a recorder of its own (`--on-miss pass`).

The new capture holds exactly this traffic: a handshake equal to that of the client, and the misses. Requests get new
ids and progress tokens on that connection, as several clients may share it. So do the real server's requests to the
client, because the recorded server has requests, too.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response
from analysis.playback.incoming import client_messages_in, server_messages_in
from analysis.playback.json_spans import spans_of
from analysis.playback.translation import MessageTokens, Substitutes, tokens_of, translated
from mcpproxy.mock.miss import failure_response
from mcpproxy.mock.outgoing import Outgoing
from mcpproxy.mock.real_connection import RealConnection
from mcpproxy.replay.arrivals import Arrival
from mcpproxy.replay.conversation import Outgoing as ClientUnit
from mcpproxy.replay.http import HttpOptions
from mcpproxy.replay.versions import agreed_version

MAX_OPEN: Final = 10_000
"""The maximum number of requests that wait for the real server."""
MAX_OPEN_BYTES: Final = 64 << 20
"""The maximum size of them all."""
SILENCE_S: Final = 300.0
"""How long a server with a URL may be silent."""
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
MAX_TOKEN_BYTES: Final = 4 << 10
"""The maximum size of an id; a longer progress token is passed on as it is."""
_MAX_TOKENS: Final = 10_000
_INITIALIZE: Final = "initialize"
_INITIALIZED: Final = "notifications/initialized"


class _OpenRequest(NamedTuple):
    """A request of the client that waits for the real server."""

    request: int
    id_token: bytes
    size: int


class RealServer:
    """The real server, as one client of a mock sees it. Only the thread that creates it calls it; nothing blocks."""

    def __init__(
        self,
        target: Sequence[str],
        capture: str | None,
        on_arrival: Callable[[], None],
        on_notice: Callable[[str], None],
        fields: Mapping[str, str] = _NO_FIELDS,
        *,
        is_legacy: bool = False,
    ) -> None:
        """Prepare for the first miss; nothing is started before.

        Args:
            target: the server's command, or its URL alone.
            capture: the path of the new capture, or a folder; None for that of a server `NAME-mock` in the user's data
                directory. If there is such a file, the next free name is taken.
            on_arrival: is called in another thread when `received` has something.
            on_notice: is called in another thread with a sanitised line for the user.
            fields: the header fields that a server with a URL gets, such as credentials.
            is_legacy: whether a server with a URL speaks the older transport, HTTP+SSE.
        """
        self._target, self._capture = target, capture
        self._on_arrival, self._on_notice = on_arrival, on_notice
        self._http_options = HttpOptions(fields, SILENCE_S, is_legacy)
        self._connection: RealConnection | None = None
        self._end_reason: str | None = None
        """Why the server can no longer be asked."""
        self._failures: deque[Outgoing] = deque()
        self._count = 0
        """The last new id that the server got."""
        self._open: dict[int, _OpenRequest] = {}
        """By the new id."""
        self._open_bytes = 0
        self._introduction: bytes | None = None
        self._introducing: int | None = None
        """The new id of the handshake that has not been answered."""
        self._is_introduced = False
        self._passed_introduction: int | None = None
        """The new id of the client's own `initialize`, if that was a miss, too."""
        self._version: str | None = None
        self._waiting: deque[ClientUnit] = deque()
        """What is sent after the handshake."""
        self._ids: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        """By the new id of a request of the client, its own id."""
        self._tokens: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        self._own_ids: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        """By the client's id of a request, the new id."""
        self._server_ids: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        """By the new id of a request of the server, its own id."""
        self._server_tokens: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        self._server_own_ids: BoundedDict[bytes, bytes] = BoundedDict(_MAX_TOKENS)
        """By the server's id of a request, the new id."""

    # ---- what the client sends

    def note_initialize(self, raw: bytes) -> None:
        """Note how the client opened its conversation: its `initialize`, which the real server will get, too."""
        self._introduction = raw

    def pass_request(self, raw: bytes, request: int) -> None:
        """Pass on one request.

        Args:
            raw: the bytes of the request, without those of the batch around it.
            request: the number that `Outgoing.request` will have.
        """
        tokens = _tokens_of(raw)
        id_token = tokens.id or b"null"
        reason = self._end_reason or self._refusal(raw, id_token)
        if reason is not None:
            self._fail(_OpenRequest(request, id_token, 0), reason)
            self._on_arrival()
            return
        method = _method_of(raw)
        if method == _INITIALIZE:
            self._is_introduced = True
            self._passed_introduction = self._count + 1
        elif not self._is_introduced and self._introducing is None:
            self._introduce()
        unit = self._numbered(raw, tokens, method)
        self._open[self._count] = _OpenRequest(request, id_token, len(raw))
        self._open_bytes += len(raw)
        if self._is_introduced:
            self._send(unit)
        else:
            self._waiting.append(unit)

    def _refusal(self, raw: bytes, id_token: bytes) -> str | None:
        """Returns why a request is not passed on, or None if it is."""
        if len(self._open) >= MAX_OPEN or self._open_bytes + len(raw) > MAX_OPEN_BYTES:
            return "too many requests wait for it"
        if len(id_token) > MAX_TOKEN_BYTES:
            return f"the id has more than {MAX_TOKEN_BYTES:,} bytes"
        return None

    def pass_message(self, raw: bytes) -> bool:
        """Pass on a response or notification if it is meant for the real server; returns whether it is."""
        if self._connection is None:
            return False
        message = client_messages_in(raw)[0]
        tokens = _tokens_of(raw)
        is_ours = False
        if isinstance(message, Response):
            is_ours = tokens.id in self._server_ids
        elif isinstance(message, Notification):
            is_ours = (
                tokens.cancelled_id in self._own_ids
                or tokens.reported_token in self._server_tokens
                or (message.method == _INITIALIZED and self._passed_introduction is not None)
            )
        if is_ours:
            substitutes = Substitutes(self._server_ids, self._server_tokens, self._own_ids)
            method = message.method if isinstance(message, Notification) else ""
            self._send(ClientUnit(translated(raw, substitutes), method=method, version=self._version))
            if isinstance(message, Response) and tokens.id is not None:
                self._server_own_ids.pop(self._server_ids.pop(tokens.id), None)
            elif tokens.cancelled_id is not None:
                self._own_ids.pop(tokens.cancelled_id)
        return is_ours

    def abandon(self, request: int) -> None:
        """Note that the client no longer waits for the answer to a request."""
        for number in [number for number, open_request in self._open.items() if open_request.request == request]:
            self._close(number)
            self._send(ClientUnit(b"", version=self._version, abandoned=number))

    def close(self) -> None:
        """End the real server and its recorder, if they run; wait until they have ended, but at most some seconds."""
        self._end_reason = "the mock is ending"
        if self._connection is not None:
            self._connection.close()

    def _introduce(self) -> None:
        if self._introduction is None:
            self._is_introduced = True
            return
        unit = self._numbered(self._introduction, _tokens_of(self._introduction), _INITIALIZE)
        self._introducing = self._count
        self._send(unit)

    def _numbered(self, raw: bytes, tokens: MessageTokens, method: str) -> ClientUnit:
        """Returns a request with a new id and a new progress token."""
        self._count += 1
        ours = b"%d" % self._count
        own_tokens = {}
        if tokens.id is not None:
            self._ids.put(ours, tokens.id)
            self._own_ids.put(tokens.id, ours)
        if tokens.progress_token is not None and len(tokens.progress_token) <= MAX_TOKEN_BYTES:
            self._tokens.put(ours, tokens.progress_token)
            own_tokens = {tokens.progress_token: ours}
        own_ids = {} if tokens.id is None else {tokens.id: ours}
        body = translated(raw, Substitutes({}, {}, own_ids, own_tokens))
        return ClientUnit(body, (self._count,), method, self._version)

    def _send(self, unit: ClientUnit) -> None:
        if self._connection is None:
            self._connection = RealConnection(
                self._target, self._capture, self._http_options, self._on_arrival, self._on_notice
            )
        self._connection.send(unit)

    # ---- what the server sends

    def received(self) -> list[Outgoing]:
        """Returns what the client is to get now, in order."""
        outgoing: list[Outgoing] = []
        for arrival in () if self._connection is None else self._connection.arrivals():
            if arrival.raw:
                outgoing += self._outgoing_of(arrival.raw)
            else:
                self._note_end(arrival)
        outgoing += self._failures
        self._failures.clear()
        return outgoing

    def _outgoing_of(self, raw: bytes) -> Iterator[Outgoing]:
        messages = server_messages_in(raw)
        is_batch = messages[0].index is not None
        pieces = [raw[span.start : span.end] for span in spans_of(raw)] if is_batch else [raw]
        for message, piece in zip(messages, pieces, strict=False):
            yield from self._translated(message, piece)

    def _translated(self, message: Message, raw: bytes) -> Iterator[Outgoing]:
        tokens = _tokens_of(raw)
        number = _number(tokens.id)
        if isinstance(message, Request):
            if tokens.id is not None and message.id.is_answerable and len(tokens.id) <= MAX_TOKEN_BYTES:
                yield self._server_request(raw, tokens.id, tokens.progress_token)
        elif isinstance(message, Notification):
            body = translated(raw, Substitutes(self._ids, self._tokens, self._server_own_ids))
            yield Outgoing(body, self._request_of(_number(tokens.reported_token)))
        elif number is not None and number == self._introducing:
            self._end_introduction(message)
        elif number in self._open:
            if number == self._passed_introduction and isinstance(message, Response):
                self._version = agreed_version(message)
            body = translated(raw, Substitutes(self._ids, self._tokens))
            yield Outgoing(body, self._close(number).request, ends_request=True)

    def _server_request(self, raw: bytes, id_token: bytes, progress_token: bytes | None) -> Outgoing:
        self._count += 1
        ours = b'"mcpproxy-%d"' % self._count
        self._server_ids.put(ours, id_token)
        self._server_own_ids.put(id_token, ours)
        own_tokens = {}
        if progress_token is not None and len(progress_token) <= MAX_TOKEN_BYTES:
            self._server_tokens.put(ours, progress_token)
            own_tokens = {progress_token: ours}
        substitutes = Substitutes(self._ids, self._tokens, {id_token: ours}, own_tokens)
        return Outgoing(translated(raw, substitutes), self._request_of(None))

    def _request_of(self, number: int | None) -> int | None:
        """Returns the client's request to which a message of the server belongs: the last one, unless it is known."""
        open_request = self._open.get(number) if number is not None else None
        if open_request is None and self._open:
            open_request = self._open[next(reversed(self._open))]
        return open_request and open_request.request

    def _end_introduction(self, message: Message) -> None:
        self._introducing = None
        if not isinstance(message, Response) or message.is_error:
            self._fail_waiting("it refused the client's initialize")
            return
        self._is_introduced = True
        self._version = agreed_version(message)
        initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        self._send(ClientUnit(initialized, method=_INITIALIZED, version=self._version))
        while self._waiting:
            self._send(self._waiting.popleft()._replace(version=self._version))

    def _note_end(self, arrival: Arrival) -> None:
        if arrival.is_end:
            self._end_reason = arrival.reason
            self._waiting.clear()
            for number in list(self._open):
                self._fail(self._close(number), arrival.reason)
            return
        if self._introducing in arrival.failed_calls:
            self._introducing = None
            self._fail_waiting(arrival.reason)
        for number in arrival.failed_calls:
            if number in self._open:
                self._fail(self._close(number), arrival.reason)

    def _fail_waiting(self, reason: str) -> None:
        """Answer what waited for the handshake with errors; the next request tries again."""
        while self._waiting:
            for number in self._waiting.popleft().calls:
                if number in self._open:
                    self._fail(self._close(number), reason)

    def _fail(self, open_request: _OpenRequest, reason: str) -> None:
        raw = failure_response(open_request.id_token, reason)
        self._failures.append(Outgoing(raw, open_request.request, ends_request=True, failure=reason))

    def _close(self, number: int) -> _OpenRequest:
        open_request = self._open.pop(number)
        self._open_bytes -= open_request.size
        return open_request


def _tokens_of(raw: bytes) -> MessageTokens:
    """Returns the tokens of one message; of a list or of nothing, none."""
    tokens = tokens_of(raw)
    return tokens[0] if len(tokens) == 1 else MessageTokens(None, None)


def _method_of(raw: bytes) -> str:
    message = client_messages_in(raw)[0]
    return "" if isinstance(message, Response | InvalidMessage) else message.method


def _number(token: bytes | None) -> int | None:
    """Returns the new id that a token holds, or None if it cannot be one."""
    return int(token) if token is not None and token.isdigit() and len(token) < 16 else None
