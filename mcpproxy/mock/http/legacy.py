"""A client of the older transport, HTTP+SSE: one stream carries all messages of the server."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.http.client import HttpClient
from mcpproxy.mock.http.connection import HttpRequest, HttpResponse
from mcpproxy.mock.http.messages import JSON, error_body, event_bytes, repeated_fields, stream_fields
from mcpproxy.mock.outgoing import Outgoing

ENDPOINT_EVENT: Final = "endpoint"
"""The type of the event with the address to which a client posts."""


class LegacyClient(HttpClient):
    """A client that has opened its stream."""

    def __init__(
        self,
        conversation: Conversation,
        session: int,
        on_stderr: Callable[[bytes], None],
        stream: HttpResponse,
        address: str,
        on_end: Callable[[], None],
    ) -> None:
        """Begin by giving the client the address to which it posts.

        Args:
            conversation: the conversation with the client.
            session: the number of the recorded session that it plays.
            on_stderr: called with each line that the recorded server wrote to stderr.
            stream: the response that carries the stream.
            address: the path to which the client posts.
            on_end: called when the client is gone.
        """
        super().__init__(conversation, session, on_stderr)
        self._stream = stream
        self._on_end = on_end
        self._post_response: HttpResponse | None = None
        stream.on_client_gone = self._on_stream_gone
        stream.on_drained = self.proceed
        stream.begin_events(200, stream_fields(None))
        stream.send_events(event_bytes(address.encode("ascii"), event=ENDPOINT_EVENT))

    @property
    def has_slow_reader(self) -> bool:
        """Whether the stream has much that was not read."""
        return self._stream.is_full

    @property
    def is_idle(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.is_over

    def post(self, request: HttpRequest, response: HttpResponse) -> None:
        """Pass a message to the conversation, and accept it, unless the recorded server refused it."""
        if self.has_slow_reader:
            response.send_whole(503, (), JSON, error_body("the event stream is not read"))
            return
        self.conversation.receive(request.body, time.monotonic_ns())
        self._post_response = response
        self.proceed()
        self._post_response = None
        response.send_whole(202, (), "text/plain", b"Accepted")

    def deliver(self, outgoings: Sequence[Outgoing]) -> None:
        """Send all messages on the stream, and a failure as the response to the POST that is under way."""
        for outgoing in outgoings:
            recorded = outgoing.http
            if outgoing.event == ENDPOINT_EVENT:  # it names an address of the recorded server
                continue
            if outgoing.raw or outgoing.is_priming:
                event = event_bytes(outgoing.raw, event_id=outgoing.event_id, event=outgoing.event)
                self._stream.send_events(event)
            elif recorded is not None and recorded.status >= 300 and self._post_response is not None:
                text = recorded.text.encode("utf-8", "replace")
                self._post_response.send_whole(recorded.status, repeated_fields(recorded), "text/plain", text)

    def close_streams(self) -> None:
        """End the stream."""
        self._stream.end_events()

    def _on_stream_gone(self) -> None:
        self._on_end()
