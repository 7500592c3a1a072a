"""Relays traffic to one HTTP server: forwards bytes as they arrive, and shows a copy to an observer.

Promises: each client connection has its own connection to the upstream, so what one side does to its connection
(half-closing, resetting, reading slowly) happens to the other side. Nothing is retried, followed, cached or
decompressed, no idle stream times out, and a head does not wait for its body. Requests are forwarded as `wire.http1`
passes them; the upstream sees nothing of what it or the admission rule refuses. Responses of our own are marked as ours
and are never JSON-RPC.

The observer is called after the bytes have been forwarded, with the time at which they were read, so that no response
is older than its request. All calls for one turn of the loop are made together, in order, which takes half the time of
interleaving them. If the observer raises, traffic continues unobserved.

A long read is forwarded in portions, in turn with those of other connections (`turns`), and the observer sees each. If
the observer falls behind, as it may with a compressed body, nothing more is read from that client until it has caught
up.
"""

import asyncio
import errno
import os
import socket
import ssl
import time
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from mcpproxy.relay.admission import Admission
from mcpproxy.relay.descriptors import USUAL
from mcpproxy.relay.observer import ConnectionTap, EndedBy, Observer, Telling
from mcpproxy.relay.rewrite import Origin, Rewriter
from mcpproxy.relay.turns import Turns
from mcpproxy.relay.upstream import Upstream, connect, error_text, reset_on_close
from mcpproxy.wire import http1, response
from mcpproxy.wire.framing import Body
from mcpproxy.wire.http1 import RequestSplitter, forwarded
from mcpproxy.wire.portions import portion
from mcpproxy.wire.response import ResponseTap

HEAD_S: Final = 30.0
"""How long a request's head may take from its first byte to its last."""
CONNECT_S: Final = 10.0
"""How long the upstream may take to answer a connection."""
CLOSE_S: Final = 1.0
"""How long clients that do not read may delay our exit."""
LINGER_S: Final = 5.0
"""How long a refused client may keep sending, which is discarded, until it has read why."""
HELD_BYTES: Final = 64 << 10
"""How many bytes may wait for the upstream connection, or for a slow reader, before the sender has to wait."""
BACKLOG: Final = 512
_AT_ONCE: Final = 2  # connections accepted per turn of the loop; closing a surplus one takes several turns
_LINGERING: Final = 4  # clients above the maximum that get an explanation instead of a reset
_UNREAD: Final = 256 << 10

_TOLD: Final = (502, 503, 504)  # reported where the upstream was unreachable, or we were too busy


class HttpRelay:
    """A listener and its connections."""

    def __init__(
        self,
        upstream: Upstream,
        admission: Admission,
        observer: Observer,
        tell: Callable[[str], None],
        origin: Origin | None = None,
        *,
        most: int = USUAL,
    ) -> None:
        """Prepare.

        Args:
            upstream: the server that receives everything.
            admission: decides which requests may pass.
            observer: sees the traffic.
            tell: shows one line to the user.
            origin: whose addresses to make relative in responses; None leaves responses unchanged.
            most: how many client connections there may be at a time.
        """
        self.upstream = upstream
        self.admission = admission
        self.observer = observer
        self.origin = origin
        self.tell = tell
        self.clients: set[_Client] = set()
        self.cap = most
        self._left = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._has_told_of_crowd = False
        self.turns = Turns()
        self._untold: list[tuple[_Client, int, Telling]] = []

    async def listen(self, bound: socket.socket) -> None:
        """Start accepting connections on a bound socket."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fault)
        self._server = await loop.create_server(lambda: _Client(self, loop), sock=bound, backlog=_AT_ONCE)
        bound.listen(BACKLOG)  # asyncio uses one number for accepts at once and for the system's backlog

    def show(self, client: "_Client", at_ns: int, call: Telling) -> None:
        """Queue a call to the observer about what a connection has just forwarded, or about its fate."""
        if not self._untold:
            asyncio.get_running_loop().call_soon(self.tell_observer)
        self._untold.append((client, at_ns, call))

    def tell_observer(self) -> None:
        """Make the queued calls to the observer now."""
        untold, self._untold = self._untold, []
        for client, at_ns, call in untold:
            if client.watched is None:
                continue
            was_behind = client.is_behind
            try:
                call(client.watched, at_ns)
            except Exception as error:  # noqa: BLE001 - a bug of the recorder must not become one of the traffic
                client.watched = self.observer.failed(error)
            if client.is_behind and not was_behind:
                self.turns.add(partial(self._catch_up, client))

    def _catch_up(self, client: "_Client") -> bool:
        """Let a client's observer do some of its remaining work; returns whether more is left."""
        try:
            if client.watched is not None:
                client.watched.catch_up()
        except Exception as error:  # noqa: BLE001 - a bug of the recorder must not become one of the traffic
            client.watched = self.observer.failed(error)
        return client.is_behind

    async def close(self) -> None:
        """Stop listening, and end every connection as ended by us."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for client in list(self.clients):
            if client.outstanding:
                client.abort("proxy", "the recorder ends")
            else:
                client.end("proxy", None)
        try:
            async with asyncio.timeout(CLOSE_S):
                while self.clients:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:  # a client that does not read cannot be closed cleanly
            for client in list(self.clients):
                client.transport.abort()
        self.tell_observer()
        await self.turns.finish()

    def add(self, client: "_Client") -> bool:
        """Add a client that has connected; False if there are too many."""
        self.clients.add(client)
        return len(self.clients) <= self.cap

    def tell_of_crowd(self) -> None:
        """Report that clients are refused: once, as thousands may be."""
        if not self._has_told_of_crowd:
            self._has_told_of_crowd = True
            self.tell(f"refusing connections beyond {self.cap}; --max-connections allows more; clients get 503")

    @property
    def is_crowded(self) -> bool:
        """Whether refused clients must be closed at once, so that descriptors are left for others."""
        return len(self.clients) > self.cap + _LINGERING

    def _fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report in one line what asyncio would print with a traceback."""
        if self._is_closed:  # it may still try to accept on the closed listener
            return
        error = context.get("exception")
        if isinstance(error, OSError):  # from accepting; the loop tries again after a second
            self.tell(f"connections have to wait: {error_text(error)}")
        else:
            self.tell(f"a fault of mcpproxy: {context['message']} ({type(error).__name__})")

    def drop(self, client: "_Client") -> None:
        """A client's connection is closed."""
        self.clients.discard(client)
        self._left.set()


class _Side(asyncio.Protocol):
    """One of two connections: what is read from it is forwarded in portions.

    Reading pauses while a long read is unfinished, and while the other connection accepts no more.
    """

    __slots__ = ("_is_full", "_rest", "transport")

    def __init__(self) -> None:
        self._is_full = False
        """Whether the other connection currently accepts no more."""
        self._rest: _Rest | None = None
        self.transport: asyncio.Transport

    def take(self, client: "_Client", data: bytes, deal: Callable[[bytes], None]) -> None:
        """Forward what has been read: at once if it is one portion and nothing waits before it, else in turns."""
        if self._rest is not None:
            self._rest.data += data
        elif portion(data) == len(data) and not client.is_behind:
            deal(data)
        else:
            self._rest = _Rest(self, client, data, deal)
            self._mind_reading()
            client.relay.turns.add(self._rest.step)

    def afterwards(self, call: Callable[[], object]) -> None:
        """Call `call` once all that was read before has been forwarded."""
        if self._rest is None:
            call()
        else:
            self._rest.afterwards.append(call)

    def drop(self) -> None:
        """Discard what has not been forwarded yet."""
        self._rest = None

    def ended(self, rest: "_Rest") -> None:
        """A long read has been forwarded completely."""
        self._rest = None
        self._mind_reading()
        for call in rest.afterwards:
            call()

    def is_at(self, rest: "_Rest") -> bool:
        """Whether `rest` is the long read now being forwarded."""
        return self._rest is rest

    def full(self, *, is_full: bool) -> None:
        """Note whether the other connection currently accepts no more, and pause or resume reading."""
        self._is_full = is_full
        self._mind_reading()

    def _mind_reading(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_full or self._rest is not None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class _Rest:
    """The part of a long read still to be forwarded, and what to call after that."""

    __slots__ = ("_at", "_client", "_deal", "_side", "afterwards", "data")

    def __init__(self, side: _Side, client: "_Client", data: bytes, deal: Callable[[bytes], None]) -> None:
        self._side = side
        self._client = client
        self._deal = deal
        self._at = 0
        self.data = data
        self.afterwards: list[Callable[[], object]] = []

    def step(self) -> bool:
        """Forward a portion; returns whether more is left."""
        if not self._side.is_at(self):
            return False
        if self._client.is_behind:
            return True
        begin, self._at = self._at, portion(self.data, self._at)
        try:
            self._deal(self.data[begin : self._at])
        except Exception:
            # As asyncio does if a connection's `data_received` raises; other connections continue.
            self._side.transport.abort()
            self._side.drop()
            raise
        self._client.relay.tell_observer()
        if self._at < len(self.data) or self._client.is_behind:
            return True
        self._side.ended(self)
        return False


class _Client(_Side):
    """A client connection, and the path from it to the upstream."""

    __slots__ = (
        "_connecting",
        "_deadline",
        "_deaf",
        "_eof",
        "_is_lost",
        "_is_within_message",
        "_loop",
        "_over",
        "_refusal",
        "_rewriter",
        "_splitter",
        "_upstream_eof",
        "_waiting",
        "answers",
        "outstanding",
        "relay",
        "server",
        "watched",
    )

    def __init__(self, relay: HttpRelay, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.relay = relay
        self._loop = loop
        self._splitter = RequestSplitter()
        self._waiting = bytearray()
        self._connecting: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._deaf = self._eof = self._upstream_eof = self._over = self._is_within_message = self._is_lost = False
        self._refusal: http1.Refusal | None = None
        self.watched: ConnectionTap | None = None
        self.answers = ResponseTap()
        self._rewriter = Rewriter(relay.origin, self.answers) if relay.origin is not None else None
        self.outstanding = 0
        """Forwarded requests that have no complete response yet."""
        self.server: _Server | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the observer still has work to do on what it has seen."""
        return self.watched is not None and self.watched.is_behind

    # --- what the client does ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(HELD_BYTES)
        peer = self.transport.get_extra_info("peername")
        try:
            self.watched = self.relay.observer.connected(_address(peer) if peer else "unknown")
        except Exception as error:  # noqa: BLE001 - a bug of the recorder must not become one of the traffic
            self.watched = self.relay.observer.failed(error)
        if not self.relay.add(self):
            self.relay.tell_of_crowd()
            noun = "connection" if self.relay.cap == 1 else "connections"
            self._refuse(
                http1.Refusal(503, f"there are {self.relay.cap} {noun} already; --max-connections allows more")
            )

    def data_received(self, data: bytes) -> None:
        if not self._deaf:
            self.take(self, data, self._hand_on)

    def _hand_on(self, data: bytes) -> None:
        if self._deaf:
            return
        read_ns = time.monotonic_ns()
        passed: list[http1.Event] = []
        out: list[bytes] = []
        refusal = None
        for event in self._splitter.feed(data):
            if isinstance(event, http1.Refusal):
                refusal = event
                break
            passed.append(event)
            if isinstance(event, http1.Head):
                objection = self.relay.admission.judge(event.headers)
                if objection is not None:
                    refusal = http1.Refusal(*objection, event.method)
                    break
                self.outstanding += 1
                self._is_within_message = True
                self.answers.expect(event.method)
                out.append(forwarded(event, self.relay.upstream.authority))
            else:
                self._is_within_message = isinstance(event, Body)
                out.append(event.wire)
        if wire := b"".join(out):
            self._forward(wire)
        if passed:
            self._show(lambda tap, at_ns: tap.request(at_ns, passed), read_ns)
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._mind_the_head()

    def _forward(self, data: bytes) -> None:
        if self.server is not None:
            # A write that failed one portion ago has closed it, and asyncio logs a warning for later writes.
            if not self.server.transport.is_closing():
                self.server.transport.write(data)
            return
        self._waiting += data
        if len(self._waiting) > HELD_BYTES:
            self.full(is_full=True)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _mind_the_head(self) -> None:
        if not self._splitter.in_head:
            self._cancel_deadline()
        elif self._deadline is None:
            late = http1.Refusal(408, f"the request's head took longer than {HEAD_S:.0f} s")
            self._deadline = self._loop.call_later(HEAD_S, self._refuse, late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def eof_received(self) -> bool:
        """Forward the half-close. True keeps the other half open."""
        self.afterwards(self._said_all)
        return True

    def _said_all(self) -> None:
        self._eof = True
        if self._over:
            self.transport.close()
            return
        if self._splitter.in_head and not self._deaf:
            self._refuse(http1.Refusal(400, "the connection ended within a head"))
            return
        if self.server is not None:
            self.server.half_close()
        if self._connecting is None or self._upstream_eof:
            self.end("client", None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop()
        self.relay.drop(self)
        self._cancel_deadline()
        self._end_upstream(reset=exc is not None)
        self._finish("client", None if exc is None else error_text(exc))

    def pause_writing(self) -> None:
        if self.server is not None:
            self.server.full(is_full=True)

    def resume_writing(self) -> None:
        if self.server is not None:
            self.server.full(is_full=False)

    # --- the connection to the upstream ---

    @property
    def relays_half_closes(self) -> bool:
        """Whether the upstream's connection supports half-closing."""
        return self.relay.upstream.tls is None

    async def _connect(self) -> None:
        upstream = self.relay.upstream
        try:
            async with asyncio.timeout(CONNECT_S):
                await connect(self._loop, upstream, lambda: _Server(self))
        except TimeoutError:
            self._fail(504, f"the upstream did not answer within {CONNECT_S:.0f} s")
        except ssl.SSLCertVerificationError as error:
            self._fail(502, f"the upstream's certificate is not trusted: {error.verify_message}")
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            status = 503 if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) else 502
            self._fail(status, f"the upstream cannot be reached: {error_text(error)}")

    def upstream_made(self, server: "_Server") -> None:
        """The upstream has answered: forward what waited."""
        self.server = server
        if self._over:
            server.abort()
            return
        self.full(is_full=False)  # before the write, which may fill it again
        if self._waiting:
            server.transport.write(bytes(self._waiting))
            self._waiting = bytearray()
        if self._eof:
            server.half_close()

    def _fail(self, status: int, reason: str) -> None:
        self.relay.tell(f"{reason} ({self.relay.upstream.authority.decode('latin-1')}); the client got {status}")
        self._answer(status, reason, to_head=self.answers.awaits_head)

    # --- answers of our own ---

    def _refuse(self, refusal: http1.Refusal) -> None:
        """Forward no more from this client, and answer once all forwarded requests have their responses."""
        self._deaf = True
        if self._over:
            return
        self._cancel_deadline()
        self._show(lambda tap, at_ns: tap.request(at_ns, [refusal]))
        if self._is_within_message:
            # The upstream has part of this message and must not take it for a whole one.
            self._end_upstream(reset=True)
            is_next = self.outstanding == 1 and not self.answers.under_way
        else:
            is_next = not self.outstanding
        if self._upstream_eof:
            self.end("proxy", refusal.reason)
        elif is_next and not self._is_lost:
            self._answer(refusal.status, refusal.reason, to_head=refusal.method == b"HEAD")
        elif self._is_within_message or self._is_lost:
            self.abort("proxy", refusal.reason)
        else:
            self._refusal = refusal

    def _answer(self, status: int, reason: str, *, to_head: bool) -> None:
        """Answer ourselves, and end the connection: nothing later on it could be trusted or served."""
        if status not in _TOLD:
            self.relay.tell(f"refused a request with {status}: {reason}")
        self._deaf = True
        body = f"mcpproxy: {reason}\n".encode()
        phrase = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\nMcpproxy-Refused: {status}\r\n\r\n"
        )
        # A response to HEAD describes a body and has none.
        self.transport.write(head.encode() + (b"" if to_head else body))
        self._show(lambda tap, at_ns: tap.answered(at_ns, status, reason))
        self._finish("proxy", reason)
        self._end_upstream(reset=False)
        if self._eof or self.relay.is_crowded:
            self.transport.close()
            return
        # Closing with unread bytes from the client would send a reset, which may overtake the response (RFC 9112, 9.6).
        self.transport.write_eof()
        self.drop()
        self.full(is_full=False)
        self._deadline = self._loop.call_later(LINGER_S, self.transport.close)

    # --- what the upstream does ---

    def upstream_data(self, data: bytes) -> None:
        """Forward the data, then examine it."""
        if self._over or self.transport.is_closing():
            return
        read_ns = time.monotonic_ns()
        if self._rewriter is not None:
            self.transport.write(self._rewriter.feed(data, self._see))
        else:
            self.transport.write(data)
            self._see(self.answers.feed(data), read_ns)
        if self._refusal is None:
            return
        if self._is_lost:
            self.abort("proxy", self._refusal.reason)
        elif not self.outstanding:
            self._answer(self._refusal.status, self._refusal.reason, to_head=self._refusal.method == b"HEAD")

    def _see(self, events: Sequence[response.Event], at_ns: int = 0) -> None:
        for event in events:
            if isinstance(event, response.ResponseEnd):
                self.outstanding = max(0, self.outstanding - 1)
            elif isinstance(event, response.ResponseAborted):
                self.outstanding = max(0, self.outstanding - 1)
                self._tell_of_loss(event.reason)
                if self._eof:
                    # The client left first: it was not the upstream that ended this. Nothing ever follows it.
                    events = events[:-1]
            elif isinstance(event, response.Lost):
                self._is_lost = True
        if events:
            self._show(lambda tap, at_ns: tap.response(at_ns, events), at_ns)

    def upstream_eof(self) -> None:
        """The upstream has finished sending, so we finish too."""
        if self._over:
            return
        if self._rewriter is not None:
            self.transport.write(self._rewriter.end())
        self._see(self.answers.close())
        while self.outstanding:
            self._see([response.ResponseAborted("the upstream ended before the response")])
        self._upstream_eof = True
        if self._eof:
            self.end("client", None)
        elif self._refusal is not None:
            self.end("proxy", self._refusal.reason)
        elif not self.transport.is_closing():
            self.transport.write_eof()

    def upstream_lost(self, exc: Exception | None) -> None:
        """The upstream is gone: close in the same way."""
        if self._over:
            return
        if exc is not None:
            # The observer gets no end event: after a reset, even a body delimited by the close is incomplete.
            if self.outstanding:
                self._tell_of_loss(error_text(exc))
            self.abort("client" if self._eof else "server", error_text(exc))
            return
        self._see(self.answers.close())
        self.end("client" if self._eof else "server", None)

    def _tell_of_loss(self, why: str) -> None:
        if not self._eof:
            self.relay.tell(f"the upstream left a request without its answer: {why}")

    # --- the end ---

    def end(self, by: EndedBy, error: str | None) -> None:
        """Close both connections; what is on its way to the client is still delivered."""
        self._finish(by, error)
        self._end_upstream(reset=False)
        self.transport.close()

    def abort(self, by: EndedBy, error: str | None) -> None:
        """The same with a reset, so that half a message is never taken for a whole one."""
        self._finish(by, error)
        self._end_upstream(reset=True)
        reset_on_close(self.transport)
        self.transport.close()

    def _finish(self, by: EndedBy, error: str | None) -> None:
        if self._over:
            return
        self._over = self._deaf = True
        self._cancel_deadline()
        self._show(lambda tap, at_ns: tap.ended(at_ns, by, error))

    def _end_upstream(self, *, reset: bool) -> None:
        if self._connecting is not None and self.server is None:
            self._connecting.cancel()
        if self.server is not None:
            if reset:
                self.server.abort()
            else:
                self.server.close()

    def _show(self, call: Telling, at_ns: int = 0) -> None:
        """Report what happened at that time, or now."""
        if self.watched is not None:
            self.relay.show(self, at_ns or time.monotonic_ns(), call)


class _Server(_Side):
    """The upstream connection of one client connection."""

    __slots__ = ("_client", "_is_half_closed")

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self._client = client
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(HELD_BYTES)
        self._client.upstream_made(self)

    def data_received(self, data: bytes) -> None:
        self.take(self._client, data, self._client.upstream_data)

    def eof_received(self) -> bool:
        self.afterwards(self._client.upstream_eof)
        # TLS has no half-close.
        return self._client.relays_half_closes

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._client.relays_half_closes:
            # It may have said why it accepts no more, such as 401 or 413, before the write failed.
            unread = _unread(self.transport)
            if unread:
                self.data_received(unread)
        self.afterwards(partial(self._client.upstream_lost, exc))

    def pause_writing(self) -> None:
        self._client.full(is_full=True)

    def resume_writing(self) -> None:
        self._client.full(is_full=False)

    def half_close(self) -> None:
        """The client has finished sending. For a TLS upstream that is a close, as it would be without us."""
        if self.transport.is_closing() or self._is_half_closed:
            return
        self._is_half_closed = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close after writing what is still queued."""
        if not self.transport.is_closing():  # a TLS transport of asyncio that is closed twice fails at the next call
            self.transport.close()

    def abort(self) -> None:
        """Close with a reset."""
        reset_on_close(self.transport)
        self.transport.abort()


def _unread(transport: asyncio.Transport) -> bytes:
    """Returns what arrived on a lost connection: asyncio drops it if a write fails before it is read."""
    sock = transport.get_extra_info("socket")
    if not isinstance(sock, TransportSocket):
        return b""  # another loop may have closed it, and the number may since have been reused
    try:
        return os.read(sock.fileno(), _UNREAD)
    except OSError:
        return b""


def _address(peer: tuple[str, int]) -> str:
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
