"""A client's connection to a mock: requests in, one response after another out.

Requests of one connection are answered in turn. While one is open, little more is read from it, just enough to see that
the client has left.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

from mcpproxy.mock.http.messages import EVENT_STREAM, HeaderFields, response_head
from mcpproxy.relay.http.admission import AdmissionRule
from mcpproxy.wire.framing import Body, Fields, MessageEnd
from mcpproxy.wire.http1 import Refusal, RequestEvent, RequestHead, RequestSplitter
from mcpproxy.wire.portions import portions

MAX_BODY_BYTES: Final = 64 << 20
MAX_ALL_BODIES_BYTES: Final = 256 << 20
"""The maximum size of all request bodies that have begun and are not complete."""
MAX_SMALL_BODY_BYTES: Final = 1 << 20
"""The size up to which a body is read even then."""
MAX_UNSENT_BYTES: Final = 256 << 10
"""How many bytes may wait for a slow reader before its client gets no more."""
MAX_WAITING_BYTES: Final = 64 << 10
"""How many bytes of further requests are read while one is open."""
REQUEST_TIMEOUT_S: Final = 60.0
"""How long a request may take from its first byte to its last."""
LINGER_S: Final = 2.0
"""How long a refused client may keep sending, so that it can read the reason."""
WITHOUT_CONTENT: Final = (204, 205, 304)
"""The statuses of responses that have no content."""


class HttpRequest(NamedTuple):
    """A request with its body."""

    method: str
    path: str
    query: str
    fields: Fields
    body: bytes
    connection: "HttpConnection"


class HttpHandler(Protocol):
    """What answers the requests of all connections."""

    admission: AdmissionRule
    body_bytes: int
    """The size of all request bodies that have begun and are not complete."""

    def add_connection(self, connection: "HttpConnection") -> bool:
        """Add a connection; return False if too many are open."""

    def remove_connection(self, connection: "HttpConnection") -> None:
        """Remove a connection that is closed."""

    def on_request(self, request: HttpRequest, response: "HttpResponse") -> None:
        """Answer a request, now or later."""


class HttpResponse:
    """The response to one request: a whole one, or an event stream."""

    __slots__ = ("_connection", "_has_chunks", "_is_begun", "is_over", "on_client_gone", "on_drained")

    def __init__(self, connection: "HttpConnection") -> None:
        self._connection = connection
        self._is_begun = self._has_chunks = False
        self.is_over = False
        """Whether it is complete, or its client is gone."""
        self.on_client_gone: Callable[[], None] | None = None
        """Called if the client leaves before the end."""
        self.on_drained: Callable[[], None] | None = None
        """Called when a slow reader has caught up."""

    @property
    def is_full(self) -> bool:
        """Whether much waits for a slow reader."""
        return not self.is_over and self._connection.is_full

    def send_whole(self, status: int, fields: HeaderFields, content_type: str | None, content: bytes) -> None:
        """Send a complete response."""
        if self.is_over or self._is_begun:
            return
        connection = self._connection
        if status in WITHOUT_CONTENT or not (content or content_type):
            content, content_type = b"", None
        head = response_head(
            status, fields, content_type, len(content), is_chunked=False, closes=connection.closes_after_response
        )
        connection.write(head if connection.is_answering_head else head + content)
        self._end()

    def begin_events(self, status: int, fields: HeaderFields) -> None:
        """Begin an event stream; with a status that allows no content, it ends at once."""
        if status in WITHOUT_CONTENT:
            self.send_whole(status, fields, None, b"")
        if self.is_over or self._is_begun:
            return
        self._is_begun = True
        connection = self._connection
        self._has_chunks = connection.speaks_newest
        if not self._has_chunks:
            connection.closes_after_response = True
        connection.write(
            response_head(
                status,
                fields,
                EVENT_STREAM,
                None,
                is_chunked=self._has_chunks,
                closes=connection.closes_after_response,
            )
        )

    def send_events(self, events: bytes) -> None:
        """Send bytes of the event stream."""
        if self.is_over or not events:
            return
        if self._has_chunks:
            self._connection.write(b"%x\r\n%b\r\n" % (len(events), events))
        else:
            self._connection.write(events)

    def end_events(self) -> None:
        """End the event stream."""
        if self.is_over:
            return
        if self._has_chunks:
            self._connection.write(b"0\r\n\r\n")
        self._end()

    def cut(self) -> None:
        """Close the connection, so that the response is incomplete."""
        if self.is_over:
            return
        self.is_over = True
        self._connection.close()

    def _end(self) -> None:
        self.is_over = True
        self._connection.on_response_end()


class HttpConnection(asyncio.Protocol):
    """A connection from a client.

    Attributes:
        client: the client that uses it, as far as the handler knows.
    """

    def __init__(self, handler: HttpHandler, loop: asyncio.AbstractEventLoop) -> None:
        self.client: object | None = None
        self.closes_after_response = False
        self.speaks_newest = True
        """Whether the client of the current request speaks HTTP/1.1 rather than 1.0."""
        self.is_answering_head = False
        """Whether the current request is a HEAD, whose response has no content."""
        self.is_full = False
        self._handler = handler
        self._loop = loop
        self._splitter = RequestSplitter()
        self._unread: deque[RequestEvent] = deque()
        self._unread_bytes = 0
        self._head: RequestHead | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._response: HttpResponse | None = None
        self._is_closing = self._is_refused = False
        self._is_reading_events = False
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport

    @property
    def is_idle(self) -> bool:
        """Whether no request is arriving or being answered, and the client has read everything."""
        is_unused = self._response is None and self._deadline is None and not self._is_closing
        return is_unused and not self.transport.get_write_buffer_size()

    # ---- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and refuse it if there are too many."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MAX_UNSENT_BYTES)
        if not self._handler.add_connection(self):
            self._refuse(503, "too many connections are open")

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        if self._is_closing:
            return
        for portion in portions(data):
            events = self._splitter.feed(portion)
            if any(isinstance(event, MessageEnd) for event in events):
                self._cancel_deadline()
            self._unread.extend(events)
        self._unread_bytes += len(data)
        self._watch_deadline()
        self._answer_requests()

    def eof_received(self) -> bool | None:
        """Close the connection, which the client has left."""
        return None

    def connection_lost(self, _: Exception | None) -> None:
        """Tell the open response that its client is gone."""
        self._is_closing = True
        self._handler.remove_connection(self)
        self._handler.body_bytes -= self._body_bytes
        self._body_bytes = 0
        self._body, self.client = [], None
        self._unread.clear()
        self._cancel_deadline()
        response, self._response = self._response, None
        if response is not None and not response.is_over:
            response.is_over = True
            if response.on_client_gone is not None:
                response.on_client_gone()

    def pause_writing(self) -> None:
        """Note a slow reader."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Continue, because the reader has caught up."""
        self.is_full = False
        if self._response is not None and self._response.on_drained is not None:
            self._response.on_drained()
        self._answer_requests()

    # ---- requests

    def _answer_requests(self) -> None:
        """Process what was read, up to a request whose response is not complete."""
        if self._is_reading_events:
            return
        self._is_reading_events = True
        try:
            while self._unread and self._response is None and not self._is_closing and not self.is_full:
                self._process(self._unread.popleft())
        finally:
            self._is_reading_events = False
        if not self._unread:
            self._unread_bytes = 0
        if not self.transport.is_closing():
            if self._unread_bytes > MAX_WAITING_BYTES:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _process(self, event: RequestEvent) -> None:
        if isinstance(event, RequestHead):
            self._begin_request(event)
        elif isinstance(event, Body):
            self._extend_body(event.payload)
        elif isinstance(event, MessageEnd):
            self._end_request()
        else:
            assert isinstance(event, Refusal)
            self._refuse(event.status, event.reason)

    def _begin_request(self, head: RequestHead) -> None:
        self._head = head
        self.speaks_newest = head.version == b"HTTP/1.1"
        self.is_answering_head = head.method == b"HEAD"
        options = b",".join(head.headers.values_of(b"connection")).lower().split(b",")
        option_names = {option.strip() for option in options}
        self.closes_after_response = b"close" in option_names or (
            not self.speaks_newest and b"keep-alive" not in option_names
        )
        objection = self._handler.admission.objection_to(head.headers)
        if objection is not None:
            self._refuse(*objection)
        elif head.content_length is not None and head.content_length > MAX_BODY_BYTES:
            self._refuse_body()
        elif self._has_expectation(head) and head.content_length != 0 and not self._splitter_has_body:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _has_expectation(self, head: RequestHead) -> bool:
        return self.speaks_newest and b"100-continue" in (value.lower() for value in head.headers.values_of(b"expect"))

    @property
    def _splitter_has_body(self) -> bool:
        """Whether some of the body of the current request has been read already."""
        return bool(self._unread)

    def _extend_body(self, piece: bytes) -> None:
        self._body_bytes += len(piece)
        self._handler.body_bytes += len(piece)
        self._body.append(piece)
        if self._body_bytes > MAX_BODY_BYTES:
            self._refuse_body()
        elif self._body_bytes > MAX_SMALL_BODY_BYTES and self._handler.body_bytes > MAX_ALL_BODIES_BYTES:
            self._refuse(503, "too many large requests at once")

    def _refuse_body(self) -> None:
        self._refuse(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB")

    def _end_request(self) -> None:
        head, body = self._head, b"".join(self._body)
        assert head is not None
        self._handler.body_bytes -= self._body_bytes
        self._head, self._body, self._body_bytes = None, [], 0
        path, _, query = head.target.decode("ascii").partition("?")
        self._response = HttpResponse(self)
        request = HttpRequest(head.method.decode("ascii"), path, query, head.headers, body, self)
        self._handler.on_request(request, self._response)

    def _watch_deadline(self) -> None:
        """Limit the time that a request may take to arrive."""
        if self._splitter.is_in_message and self._deadline is None:
            self._deadline = self._loop.call_later(REQUEST_TIMEOUT_S, self._on_deadline)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._response is None and not self._unread:
            self._refuse(408, f"the request took longer than {REQUEST_TIMEOUT_S:.0f} s")

    # ---- responses

    def write(self, raw: bytes) -> None:
        """Send bytes, unless the connection is closing."""
        if not self.transport.is_closing():
            self.transport.write(raw)

    def on_response_end(self) -> None:
        """Go on to the next request, or close the connection."""
        self._response = None
        if self.closes_after_response:
            self._close()
        else:
            self._answer_requests()

    def close(self) -> None:
        """Close the connection once what was sent has been read, whether or not a response is complete."""
        self._is_closing = True
        self.transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_closing = True
        self.transport.abort()

    def _refuse(self, status: int, reason: str) -> None:
        """Refuse a request that cannot be read to its end; nothing after it is read."""
        self.closes_after_response = self._is_refused = True
        self._response = HttpResponse(self)
        self._response.send_whole(status, (), "text/plain; charset=utf-8", f"mcpproxy: {reason}\n".encode())

    def _close(self) -> None:
        """Close the connection so that what was sent can be read: the client may still be sending."""
        self._is_closing = True
        self._unread.clear()
        if self.transport.is_closing():
            return
        if self._is_refused:
            self.transport.write_eof()
            self.transport.resume_reading()
            self._cancel_deadline()
            self._deadline = self._loop.call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()
