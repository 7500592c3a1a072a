"""A client's connection, and its path to the upstream: forwards or refuses the client's requests."""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, cast

from mcpproxy.relay.http.observer import EndedBy, Event
from mcpproxy.relay.http.observer_calls import ObservedConnection
from mcpproxy.relay.http.rewrite import ResponseRewriter
from mcpproxy.relay.http.shared import SharedState
from mcpproxy.relay.http.side import MAX_HELD_BYTES, RelayConnection
from mcpproxy.relay.http.socket_address import host_and_port
from mcpproxy.relay.http.upstream import connect, error_text, set_reset_on_close, socket_of
from mcpproxy.relay.http.upstream_connection import UpstreamConnection
from mcpproxy.wire import http1, response
from mcpproxy.wire.framing import Body
from mcpproxy.wire.http1 import RequestSplitter, forwarded_head
from mcpproxy.wire.response import ResponseTap

HEAD_TIMEOUT_S: Final = 30.0
"""How long the head of a request may take from its first byte to its last, in seconds."""
CONNECT_TIMEOUT_S: Final = 10.0
"""How long connecting to the upstream may take, in seconds."""
MAX_LINGER_S: Final = 5.0
"""How long a refused client may keep sending, so that it can read the reason, in seconds; the data is discarded."""

_REPORTED_STATUSES: Final = (502, 503, 504)  # reported when the upstream is unreachable, or mcpproxy is overloaded


class ClientConnection(RelayConnection):
    """A client connection, and the path from it to the upstream."""

    __slots__ = (
        "_connect_task",
        "_deadline",
        "_has_client_eof",
        "_has_ended",
        "_has_upstream_eof",
        "_ignores_client",
        "_is_framing_lost",
        "_is_tunnel",
        "_is_within_message",
        "_loop",
        "_refusal",
        "_rewriter",
        "_splitter",
        "_waiting_data",
        "outstanding_requests",
        "response_tap",
        "shared",
        "upstream",
    )

    def __init__(self, shared: SharedState, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(ObservedConnection(shared.observer_calls), shared.turns)
        self.shared = shared
        self._loop = loop
        self._splitter = RequestSplitter(accepts_upgrades=shared.is_public)
        self._waiting_data: bytearray | bytes = bytearray()
        self._connect_task: asyncio.Task[None] | None = None
        """The task that connects to the upstream; None before and after that."""
        self._deadline: asyncio.TimerHandle | None = None
        self._ignores_client = False
        """Whether further data from the client is discarded."""
        self._has_client_eof = self._has_upstream_eof = False
        self._has_ended = False
        """Whether the end of the connection has been reported to the observer."""
        self._is_within_message = False
        """Whether the upstream has received only part of a request."""
        self._is_framing_lost = False
        """Whether the end of a response can no longer be determined."""
        self._is_tunnel = False
        """Whether the connection has been upgraded to another protocol."""
        self._refusal: http1.Refusal | None = None
        self.response_tap = ResponseTap()
        self._rewriter = ResponseRewriter(shared.origin, self.response_tap) if shared.origin is not None else None
        self.outstanding_requests = 0
        """The number of forwarded requests without a complete response."""
        self.upstream: UpstreamConnection | None = None

    # --- events of the client's connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report the new client to the observer, and refuse it if too many are connected."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MAX_HELD_BYTES)
        self.observed.report_connected(_peer_text(self.transport))
        if not self.shared.add_client(self):
            self.shared.report_overload()
            count = self.shared.max_clients
            connections = "1 connection is" if count == 1 else f"{count} connections are"
            self._refuse(http1.Refusal(503, f"{connections} already open; raise the limit with --max-connections"))

    def data_received(self, data: bytes) -> None:
        """Forward the data unless the client has been refused."""
        if not self._ignores_client:
            self.forward(data, self._forward_requests)

    def _forward_requests(self, data: bytes) -> None:
        if self._ignores_client:
            return
        read_ns = time.monotonic_ns()
        if self._is_tunnel:
            self._send_upstream(data)
            self.observed.report_event(lambda tap, at_ns: tap.tunnelled(at_ns, "c2s", len(data)), read_ns)
            return
        self._forward_events(self._splitter.feed(data), read_ns)
        self.set_held(is_held=self._splitter.unread_bytes > MAX_HELD_BYTES)

    def _forward_events(self, events: Sequence[http1.RequestEvent], read_ns: int) -> None:
        passed_events: list[http1.RequestEvent] = []
        forwarded_parts: list[bytes] = []
        refusal = None
        admission = self.shared.admission
        for event in events:
            if isinstance(event, http1.Refusal):
                refusal = event
                break
            passed_events.append(event)
            if isinstance(event, http1.RequestHead):
                objection = None if admission is None else admission.objection_to(event.headers)
                if objection is not None:
                    refusal = http1.Refusal(*objection, event.method)
                    break
                self.outstanding_requests += 1
                self._is_within_message = True
                self.response_tap.expect_response(event.method, offers_upgrade=event.offers_upgrade)
                forwarded_parts.append(
                    event.wire if admission is None else forwarded_head(event, self.shared.upstream.authority)
                )
            else:
                self._is_within_message = isinstance(event, Body)
                forwarded_parts.append(event.wire)
        if wire := b"".join(forwarded_parts):
            self._send_upstream(wire)
        if passed_events:
            self.observed.report_event(lambda tap, at_ns: tap.request(at_ns, passed_events), read_ns)
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._watch_deadline()

    def _send_upstream(self, data: bytes) -> None:
        if self.upstream is not None:
            # If a write has failed, the connection is closing, and asyncio logs a warning for each later write.
            if not self.upstream.transport.is_closing():
                self.upstream.transport.write(data)
            return
        self._waiting_data += data
        if len(self._waiting_data) > MAX_HELD_BYTES:
            self.set_full(is_full=True)
        if self._connect_task is None:
            self._connect_task = self._loop.create_task(self._connect())

    def _watch_deadline(self) -> None:
        if not self._splitter.is_in_head:
            self._cancel_deadline()
        elif self._deadline is None:
            refusal = http1.Refusal(408, f"the request's head took longer than {HEAD_TIMEOUT_S:.0f} s")
            self._deadline = self._loop.call_later(HEAD_TIMEOUT_S, self._refuse, refusal)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def eof_received(self) -> bool:
        """Forward the half-close; returns True, which keeps the other half open."""
        self.call_when_forwarded(self._end_requests)
        return True

    def _end_requests(self) -> None:
        self._has_client_eof = True
        if self._has_ended:
            self.transport.close()
            return
        if self._splitter.is_in_head and not self._ignores_client:
            self._refuse(http1.Refusal(400, "the connection ended within a head"))
            return
        if self.upstream is not None:
            self.upstream.half_close()
        has_sent_nothing = self._connect_task is None and self.upstream is None
        if has_sent_nothing or self._has_upstream_eof:
            self.end("client", None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the upstream connection in the same way as the client ended its own."""
        self.discard_unforwarded()
        self.shared.remove_client(self)
        self._cancel_deadline()
        self._end_upstream(reset=exc is not None)
        self._report_end("client", None if exc is None else error_text(exc))

    def pause_writing(self) -> None:
        """Stop reading from the upstream, because the client reads slowly."""
        if self.upstream is not None:
            self.upstream.set_full(is_full=True)

    def resume_writing(self) -> None:
        """Resume reading from the upstream, because the client has caught up."""
        if self.upstream is not None:
            self.upstream.set_full(is_full=False)

    # --- the connection to the upstream ---

    @property
    def supports_half_close(self) -> bool:
        """Whether the connection to the upstream supports half-closing."""
        return self.shared.upstream.tls is None

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connect(self._loop, self.shared.upstream, lambda: UpstreamConnection(self))
        except TimeoutError:
            self._respond_unreachable(504, f"the upstream did not answer within {CONNECT_TIMEOUT_S:.0f} s")
        except ssl.SSLCertVerificationError as error:
            self._respond_unreachable(502, f"the upstream's certificate is not trusted: {error.verify_message}")
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            status = 503 if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) else 502
            self._respond_unreachable(status, f"the upstream cannot be reached: {error_text(error)}")
        finally:
            self._connect_task = None

    def on_upstream_connected(self, upstream: UpstreamConnection) -> None:
        """Forward the waiting data, because the upstream has accepted the connection."""
        self.upstream = upstream
        if self._has_ended:
            upstream.abort()
            return
        self.set_full(is_full=False)  # before the write, which may pause reading again
        if self._waiting_data:
            upstream.transport.write(bytes(self._waiting_data))
            self._waiting_data = b""
        if self._has_client_eof:
            upstream.half_close()

    def _respond_unreachable(self, status: int, reason: str) -> None:
        self.shared.say(f"{reason} ({self.shared.upstream.label}); the client got {status}")
        self._respond(status, reason, to_head=self.response_tap.awaits_head)

    # --- responses of mcpproxy itself ---

    def _refuse(self, refusal: http1.Refusal) -> None:
        """Forward no more data from this client, and respond after all forwarded requests have their responses."""
        self._ignores_client = True
        if self._has_ended:
            return
        self._cancel_deadline()
        self.observed.report_event(lambda tap, at_ns: tap.request(at_ns, [refusal]))
        if self._is_within_message:
            # The upstream has received part of this message, and must not take it for a whole one.
            self._end_upstream(reset=True)
            is_next = self.outstanding_requests == 1 and not self.response_tap.is_in_response
        else:
            is_next = not self.outstanding_requests
        if self._has_upstream_eof:
            self.end("proxy", refusal.reason)
        elif is_next and not self._is_framing_lost:
            self._respond(refusal.status, refusal.reason, to_head=refusal.method == b"HEAD")
        elif self._is_within_message or self._is_framing_lost:
            self.abort("proxy", refusal.reason)
        else:
            self._refusal = refusal

    def _respond(self, status: int, reason: str, *, to_head: bool) -> None:
        """Respond in place of the upstream, and end the connection, on which no later request could be served."""
        if status not in _REPORTED_STATUSES:
            self.shared.say(f"refused a request with {status}: {reason}")
        self._ignores_client = True
        body = f"mcpproxy: {reason}\n".encode()
        phrase = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\nMcpproxy-Refused: {status}\r\n\r\n"
        )
        # A response to HEAD describes a body, but contains none.
        self.transport.write(head.encode() + (b"" if to_head else body))
        self.observed.report_event(lambda tap, at_ns: tap.answered(at_ns, status, reason))
        self._report_end("proxy", reason)
        self._end_upstream(reset=False)
        if self._has_client_eof or self.shared.is_overloaded:
            self.transport.close()
            return
        # A close with unread bytes from the client would send a reset, which may overtake the response (RFC 9112, 9.6).
        self.transport.write_eof()
        self.discard_unforwarded()
        self.set_full(is_full=False)
        self._deadline = self._loop.call_later(MAX_LINGER_S, self.transport.close)

    # --- events of the upstream's connection ---

    def on_upstream_data(self, data: bytes) -> None:
        """Forward the data, then examine it."""
        if self._has_ended or self.transport.is_closing():
            return
        read_ns = time.monotonic_ns()
        if self._is_tunnel:
            self.transport.write(data)
            self.observed.report_event(lambda tap, at_ns: tap.tunnelled(at_ns, "s2c", len(data)), read_ns)
            return
        if self._rewriter is None or self._rewriter.passes_unchanged(data):
            self.transport.write(data)
            self._track_responses(self.response_tap.feed(data), read_ns)
        else:
            forwarded_data, events = self._rewriter.feed(data)
            if forwarded_data:
                self.transport.write(forwarded_data)
            self._track_responses(events, read_ns)
        if self._refusal is None:
            return
        if self._is_framing_lost:
            self.abort("proxy", self._refusal.reason)
        elif not self.outstanding_requests:
            self._respond(self._refusal.status, self._refusal.reason, to_head=self._refusal.method == b"HEAD")

    def _forward_held(self) -> None:
        """Forward the part of an unfinished response that was held back."""
        if self._rewriter is not None:
            forwarded_data, events = self._rewriter.finish()
            if forwarded_data and not self.transport.is_closing():
                self.transport.write(forwarded_data)
            self._track_responses(events)

    def _track_responses(self, events: Sequence[Event], at_ns: int = 0) -> None:
        for event in events:
            if isinstance(event, response.ResponseEnd):
                self.outstanding_requests = max(0, self.outstanding_requests - 1)
            elif isinstance(event, response.ResponseAborted):
                self.outstanding_requests = max(0, self.outstanding_requests - 1)
                self._report_loss(event.reason)
                if self._has_client_eof:
                    # The client closed first, so the upstream did not end the response. This event is always the last.
                    events = events[:-1]
            elif isinstance(event, response.ParsingLost):
                self._is_framing_lost = True
            elif isinstance(event, response.ProtocolSwitch):
                self._is_tunnel = True
                self.outstanding_requests = 0
        if events:
            self.observed.report_event(lambda tap, at_ns: tap.response(at_ns, events), at_ns)
        if self._splitter.awaits_response:
            self._continue_after_offer()

    def _continue_after_offer(self) -> None:
        """Forward what the client has sent since its offer to upgrade, if the upstream has responded to the offer."""
        if self._is_tunnel:
            unread_data = self._splitter.take_unread()
            if unread_data:
                self._forward_requests(unread_data)
        elif not self.response_tap.awaited_count:
            self._forward_events(self._splitter.decline_upgrade(), time.monotonic_ns())
        self.set_held(is_held=self._splitter.unread_bytes > MAX_HELD_BYTES)

    def on_upstream_eof(self) -> None:
        """Handle the half-close of the upstream: the relay finishes sending to the client, too."""
        if self._has_ended:
            return
        self._forward_held()
        self._track_responses(self.response_tap.finish())
        while self.outstanding_requests:
            self._track_responses([response.ResponseAborted("the upstream ended before the response")])
        self._has_upstream_eof = True
        if self._has_client_eof:
            self.end("client", None)
        elif self._refusal is not None:
            self.end("proxy", self._refusal.reason)
        elif not self.transport.is_closing():
            self.transport.write_eof()

    def on_upstream_lost(self, exc: Exception | None) -> None:
        """Close the client's connection in the same way as the upstream closed its own."""
        if not self._has_ended:
            self._end_as_upstream(exc)
        self.upstream = None  # they refer to each other; without that, both are freed at once

    def _end_as_upstream(self, exc: Exception | None) -> None:
        self._forward_held()
        if exc is not None:
            # The observer receives no end event, because after a reset, even a body without a length is incomplete.
            if self.outstanding_requests:
                self._report_loss(error_text(exc))
            self.abort("client" if self._has_client_eof else "server", error_text(exc))
            return
        self._track_responses(self.response_tap.finish())
        self.end("client" if self._has_client_eof else "server", None)

    def _report_loss(self, reason: str) -> None:
        if not self._has_client_eof:
            self.shared.say(f"the upstream did not answer a request: {reason}")

    # --- the end ---

    def close_for_exit(self) -> None:
        """Close both connections because the recorder ends."""
        if self.outstanding_requests:
            self.abort("proxy", "the recorder is exiting")
        else:
            self.end("proxy", None)

    def end(self, by: EndedBy, error: str | None) -> None:
        """Close both connections; data already sent to the client is still delivered."""
        self._report_end(by, error)
        self._end_upstream(reset=False)
        self.transport.close()

    def abort(self, by: EndedBy, error: str | None) -> None:
        """Close both connections with a reset, so that part of a message is never taken for a whole one."""
        self._report_end(by, error)
        self._end_upstream(reset=True)
        set_reset_on_close(self.transport)
        self.transport.close()

    def _report_end(self, by: EndedBy, error: str | None) -> None:
        if self._has_ended:
            return
        self._has_ended = self._ignores_client = True
        self._cancel_deadline()
        self.observed.report_event(lambda tap, at_ns: tap.ended(at_ns, by, error))

    def _end_upstream(self, *, reset: bool) -> None:
        if self.upstream is not None:
            if reset:
                self.upstream.abort()
            else:
                self.upstream.close()
        elif self._connect_task is not None:
            self._connect_task.cancel()


def _peer_text(transport: asyncio.Transport) -> str:
    """Returns the client's address, for the capture."""
    peer = transport.get_extra_info("peername")
    sock = socket_of(transport)
    if sock is not None and sock.family == socket.AF_UNIX:
        return "unix"
    return host_and_port(peer) if peer else "unknown"
