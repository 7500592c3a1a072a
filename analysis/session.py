"""Session: one conversation between a client and a server, folded out of the frames of a capture.

Sans-IO and streaming: `feed` takes what captures.reader yields, one item at a time, and gives back what became visible
by it; `finish` tells what is left over. Nothing raises, and everything is decided by the bytes and stamps of the
capture, so a file and the same file followed live give the same.

Both eras are understood on one connection. Up to 2025-11-25 a handshake names peers and revision for all that follows;
since 2026-07-28 each request names them for itself.
"""

from bisect import bisect_right
from typing import Any, Final, NamedTuple

from analysis.addressing import Addressing, Key
from analysis.exchange import Exchange, IdState, RequestTable, Waiting
from analysis.message import Id, Invalid, Message, Notification, Request, Response, Side, id_of, messages, parse_exactly
from captures.frame import Frame
from captures.record import Record

_META: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = _META + "protocolVersion"
CLIENT_INFO: Final = _META + "clientInfo"
SERVER_INFO: Final = _META + "serverInfo"

# Requests that exist in the modern era only, whatever their params look like.
_MODERN_METHODS: Final = frozenset({"server/discover", "subscriptions/listen"})

_STALLS: Final = 10_000


class Peer(NamedTuple):
    """What one side calls itself. Foreign text, and unverified."""

    name: str
    version: str
    """Empty where it names none."""


class Seen(NamedTuple):
    """A message, and what it means in its session."""

    message: Message
    exchange: Exchange | None = None
    """Of a response: the exchange that it ends. None where it pairs with nothing."""
    id_state: IdState | None = None
    """Of a request, response or cancellation: what its id was before it came."""
    revision: str | None = None
    """The revision in force for it; None where it is not known."""
    cancels: Request | None = None
    """Of a cancellation: the request that it names."""


class Session:
    """The fold. Its attributes say what is known so far."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.name: str | None = None
        """The server's name in the capture: given by the user, or guessed from the command."""
        self.capture: str | None = None
        """Id of the capture."""
        self.transport: str | None = None
        """`stdio`, `http` or `import`."""
        self.wall_ns: int | None = None
        """Wall clock when the capture opened."""
        self.observed_start = False
        """Whether the recording began before the server's first byte."""
        self.client: Peer | None = None
        self.server: Peer | None = None
        self.ending: str | None = None
        """How the recording ended; None while it has no close record."""
        self.closed_ns: int | None = None
        """Stamp of that record."""
        self.failed = 0
        """Requests whose HTTP exchange failed before an answer came."""
        self.unjudged = 0
        """Frames that could not be looked into: an answer may be among them."""
        self.lost = 0
        """Records known to be lost, and stretches of damage: the same."""
        self.tables: dict[Side, RequestTable] = {"client": RequestTable(), "server": RequestTable()}
        """Requests by the side that sent them."""
        self._addressing = Addressing()
        self._stalls = _Stalls()
        self._asked: str | None = None
        self._agreed: str | None = None
        self._handshake: str | None = None
        self._is_modern: bool | None = None

    @property
    def revision(self) -> str | None:
        """The revision spoken: the one last agreed on, before that the one last asked for."""
        return self._agreed or self._asked

    @property
    def is_clear(self) -> bool:
        """Whether every frame was seen and understood, so that a missing answer is really missing."""
        evicted = any(table.evicted for table in self.tables.values())
        return not (self.unjudged or self.lost or evicted)

    def feed(self, item: object) -> tuple[Seen, ...]:
        """Take the next item of a capture.

        Args:
            item: a Frame, a Record, or damage.

        Returns:
            The messages of a frame, with their meaning; nothing for other items.
        """
        if isinstance(item, Frame):
            return tuple(self._see(message) for message in messages(item))
        if isinstance(item, Record):
            self._note(item)
        else:
            self.lost += 1
        return ()

    def finish(self) -> tuple[Exchange, ...]:
        """No more will come: the exchanges without an answer, in the order of their requests. Changes nothing."""
        left = [waiting for table in self.tables.values() for waiting in table.waiting()]
        return tuple(self._closed(waiting, None) for waiting in sorted(left, key=lambda one: one.request.seq))

    def _closed(self, waiting: Waiting, response: Response | None) -> Exchange:
        # A frame of the server is stamped when it was read, so only those of the client have waited after their stamp.
        seq, sender = waiting.request.seq, waiting.request.sender
        return waiting.closed(response, self._stalls.waited_ns(seq) if sender == "client" else 0)

    # ---- messages

    def _see(self, message: Message) -> Seen:
        if isinstance(message, Request):
            response = message.as_response()
            if response is None or self._meant(response) is None:
                return self._request(message)
            message = response
        if isinstance(message, Response):
            return self._response(message)
        if isinstance(message, Notification):
            return self._notification(message)
        return self._invalid(message)

    def _request(self, request: Request) -> Seen:
        table = self.tables[request.sender]
        key = self._addressing.request(request.sender, request.frames[0], request.id)
        state = table.state(key)
        revision = self._asking(request) if request.sender == "client" else self._in_force()
        table.open(request, key, revision)
        return Seen(request, id_state=state, revision=revision)

    def _asking(self, request: Request) -> str | None:
        """What a request of the client says about itself: its revision."""
        params: Any = request.params if isinstance(request.params, dict) else {}
        meta = request.meta
        if request.method == "initialize":
            self._is_modern = False
            self.client = _peer(params.get("clientInfo")) or self.client
            self._asked = self._handshake = _text(params.get("protocolVersion"))
            return self._asked
        if PROTOCOL_VERSION not in meta and request.method not in _MODERN_METHODS and not self._is_modern:
            self._is_modern = False
            return self._handshake
        self._is_modern = self._is_modern is not False
        self.client = _peer(meta.get(CLIENT_INFO)) or self.client
        revision = _text(meta.get(PROTOCOL_VERSION))
        self._asked = revision or self._asked
        return revision

    def _response(self, response: Response) -> Seen:
        table = self.tables[_other(response.sender)]
        key = self._meant(response)
        state = IdState.NEVER_SEEN
        if response.id is not None:
            state = table.state(key or Key(response.frames[0].exchange, response.id))
        waiting = table.answer(key)
        if waiting is None:
            return Seen(response, id_state=state, revision=self._in_force())
        revision = waiting.revision
        if response.sender == "server" and not response.is_error:
            revision = self._answering(waiting, response)
        elif waiting.request.method == "initialize":
            self._handshake = None
        return Seen(response, self._closed(waiting, response), state, revision)

    def _meant(self, response: Response) -> Key | None:
        """The open request that a response answers."""
        if response.is_error and (response.id is None or response.id.type == "null"):
            # Whoever cannot read a request cannot name it; over HTTP its exchange does.
            table = self.tables[_other(response.sender)]
            asked = [
                key for key in self._addressing.asked_in(response.frames[0].exchange) if table.get(key) is not None
            ]
            return asked[0] if len(asked) == 1 and response.sender == "server" else None
        if response.id is None:
            return None
        return self._find(_other(response.sender), response.frames[0], response.id)

    def _find(self, side: Side, frame: Frame, id_: Id) -> Key | None:
        """The open request of a side that is meant by an id in a frame."""
        table = self.tables[side]
        return next((key for key in self._addressing.answer(side, frame, id_) if table.get(key) is not None), None)

    def _answering(self, waiting: Waiting, response: Response) -> str | None:
        """What a result of the server says about itself: the revision that is agreed on by it."""
        result: Any = response.result if isinstance(response.result, dict) else {}
        info = response.meta.get(SERVER_INFO)
        if waiting.request.method == "initialize":
            info = result.get("serverInfo")
            self._handshake = self._agreed = _text(result.get("protocolVersion")) or waiting.revision
            self.server = _peer(info) or self.server
            return self._agreed
        self.server = _peer(info) or self.server
        if PROTOCOL_VERSION in waiting.request.meta:
            self._agreed = waiting.revision or self._agreed
        return waiting.revision

    def _notification(self, notification: Notification) -> Seen:
        if notification.method != "notifications/cancelled":
            return Seen(notification, revision=self._in_force())
        return self._cancellation(notification)

    def _cancellation(self, notification: Notification) -> Seen:
        params = notification.params
        value = params.get("requestId") if isinstance(params, dict) else None
        id_ = id_of(_exact_request_id(notification) if isinstance(value, float) else value)
        frame, other = notification.frames[0], _other(notification.sender)
        table, key = self.tables[notification.sender], self._find(notification.sender, frame, id_)
        listening = self._find(other, frame, id_) if key is None else None
        if listening is not None and self._is_listening(self.tables[other].get(listening)):
            # The one request that the answering side ends by a cancellation.
            table, key = self.tables[other], listening
        key = key or Key(frame.exchange, id_)
        state = table.state(key)
        named = table.cancel(key, notification.t_ns) or table.get(key)
        return Seen(notification, None, state, self._in_force(), named.request if named is not None else None)

    @staticmethod
    def _is_listening(waiting: Waiting | None) -> bool:
        return waiting is not None and waiting.request.method == "subscriptions/listen"

    def _invalid(self, message: Invalid) -> Seen:
        frame = message.frames[0]
        # No client of MCP looks into an event of another type, or without data: no answer is in there.
        is_beside = frame.event is not None or (frame.unit == "sse_event" and not frame.raw)
        self.unjudged += message.reason == "unjudged" and not is_beside
        return Seen(message, revision=self._in_force())

    def _in_force(self) -> str | None:
        return self._handshake or self.revision

    # ---- other records

    def _settle(self, members: dict[str, Any]) -> None:
        """An exchange is over: its requests have failed where no answer of theirs can come any more."""
        number, response = _integer(members.get("exchange")), members.get("response")
        status = _integer(response.get("status")) if isinstance(response, dict) else None
        if number is None or (status is not None and status < 300 and members.get("ended_by") == "complete"):
            return
        if status is not None and status < 300 and self._addressing.is_of_session(number):
            # The rest of a stream that broke off may come on another one.
            return
        for key in self._addressing.asked_in(number):
            self.failed += self.tables["client"].get(key) is not None
            self.tables["client"].fail(key)

    def _note(self, record: Record) -> None:
        members = record.members
        if record.rec == "header" and self.capture is None:
            self.name, self.capture = _text(members.get("name")), _text(members.get("capture"))
            self.transport, self.wall_ns = _text(members.get("transport")), _integer(members.get("wall_ns"))
            self.observed_start = members.get("observed_start") is True
        elif record.rec == "exchange":
            self._addressing.note(members)
            if members.get("stage") == "end":
                self._settle(members)
        elif record.rec == "stall" and members.get("dir") == "c2s":
            self._stalls.add(members)
        elif record.rec == "gap":
            first, last = _integer(members.get("first")), _integer(members.get("last"))
            self.lost += max(1, last - first + 1) if first is not None and last is not None else 1
        elif record.rec in ("frame", "part"):
            # The reader could make no frame of it.
            self.lost += 1
        elif record.rec == "close" and members.get("ending") != "segment":
            self.ending, self.closed_ns = _text(members.get("ending")) or "unknown", record.t_ns


class _Stalls:
    """How long frames to the server waited to be taken. A stall is written after the frame that it is about."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        self._waited: list[int] = []

    def add(self, members: dict[str, Any]) -> None:
        first, waited = _integer(members.get("of")), _integer(members.get("waited_ns"))
        last = _integer(members.get("to"))
        if first is None or waited is None or waited < 0 or (self._first and first <= self._first[-1]):
            return
        for column, value in (
            (self._first, first),
            (self._last, first if last is None else last),
            (self._waited, waited),
        ):
            column.append(value)
            if len(column) > _STALLS:
                del column[: _STALLS // 2]

    def waited_ns(self, seq: int) -> int:
        """How long the frame `seq` waited."""
        at = bisect_right(self._first, seq) - 1
        return self._waited[at] if at >= 0 and seq <= self._last[at] else 0


def _other(side: Side) -> Side:
    return "server" if side == "client" else "client"


def _exact_request_id(cancellation: Notification) -> object:
    """The id that a cancellation names; orjson makes a float of `1.0`, and of any integer above 64 bits."""
    value = cancellation.params["requestId"]
    if cancellation.index is not None:
        return value
    try:
        return parse_exactly(cancellation.frames[0].raw)["params"]["requestId"]
    except (ValueError, RecursionError):
        return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _peer(info: object) -> Peer | None:
    """An `Implementation` of MCP; None where it is not one."""
    if not isinstance(info, dict) or not _text(info.get("name")):
        return None
    return Peer(info["name"], _text(info.get("version")) or "")
