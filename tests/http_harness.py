"""What tests of `mcpproxy serve` share: a scripted server and a client on raw sockets, and the recorder between them.

A `Wire` is one end of a connection, read and written byte by byte, so that a test controls exactly what crosses, when,
and how it ends. An `Upstream` accepts connections and runs one script on each; every byte that it receives is kept, and
an exception in a script fails the test. `serving` starts the recorder in front of it.
"""

import contextlib
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from captures.record import Record
from tests.harness import DEADLINE_S, Place, Session, frames, members_of, read_some, records, wait_until
from tests.warm import Started

Ending = Literal["eof", "reset"]
Script = Callable[["Wire"], None]

GET = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

_WITHOUT_UVLOOP = """
import runpy, sys
sys.modules["uvloop"] = None
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""
_NOTHING_LINGERS = struct.pack("ii", 1, 0)


class Wire:
    """One end of a connection; every read and write has a deadline."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(DEADLINE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.received = bytearray()
        """Everything that has been read so far."""
        self._taken = 0

    def say(self, data: bytes) -> None:
        """Write all of `data`."""
        self.sock.sendall(data)

    def say_slowly(self, data: bytes) -> None:
        """Write it in packets of one byte."""
        for byte in data:
            self.sock.sendall(bytes([byte]))

    def hear(self, size: int) -> bytes:
        """Read exactly `size` bytes; returns fewer only if the stream ends before."""
        while len(self.received) - self._taken < size and self._more():
            pass
        return self._take(self._taken + size)

    def through(self, mark: bytes) -> bytes:
        """Read up to and including a mark, or to the end."""
        while (found := self.received.find(mark, self._taken)) < 0 and self._more():
            pass
        return self._take(len(self.received) if found < 0 else found + len(mark))

    def head(self) -> bytes:
        """Read a head, with the empty line that ends it."""
        return self.through(b"\r\n\r\n")

    def request(self) -> bytes:
        """Read a head and its body; returns them as sent, or empty bytes at the end. Trailers are not supported."""
        head = self.head()
        if b"chunked" in head.lower():
            return head + self.through(b"0\r\n\r\n")
        _, found, length = head.lower().partition(b"\r\ncontent-length:")
        return head + (self.hear(int(length.partition(b"\r\n")[0])) if found else b"")

    def rest(self) -> bytes:
        """Read everything up to the end of file."""
        while self._more():
            pass
        return self._take(len(self.received))

    def end(self) -> tuple[bytes, Ending]:
        """Read everything up to the end; returns it, and how the connection ended."""
        ending: Ending = "eof"
        try:
            while self._more():
                pass
        except ConnectionResetError:
            ending = "reset"
        return self._take(len(self.received)), ending

    def pieces(self) -> Iterator[bytes]:
        """Yield what arrives, up to the end of file, without keeping it."""
        while piece := self.sock.recv(1 << 18):
            yield piece

    def is_silent(self, seconds: float) -> bool:
        """Wait for the given time; returns whether nothing arrived, not even the end of the stream."""
        self.sock.settimeout(seconds)
        try:
            self._more()
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self.sock.settimeout(DEADLINE_S)

    @property
    def is_closed(self) -> bool:
        """Whether this end has been closed or, for an upstream's connection, whether its script is done."""
        return self.sock.fileno() < 0

    def hang_up(self) -> None:
        """Close the writing half."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both halves."""
        self.sock.close()

    def reset(self) -> None:
        """End the connection by a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOTHING_LINGERS)
        self.sock.close()

    def _more(self) -> bool:
        try:
            chunk = self.sock.recv(1 << 16)
        except ssl.SSLEOFError as error:  # the end without a TLS alert: what came may be incomplete
            raise ConnectionResetError(*error.args) from error
        self.received += chunk
        return bool(chunk)

    def _take(self, stop: int) -> bytes:
        taken = bytes(self.received[self._taken : stop])
        self._taken += len(taken)
        return taken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Authority:
    """A certificate authority, made by openssl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contexts: dict[tuple[str, int], ssl.SSLContext] = {}
        self.file = folder / "ca.pem"
        # Without its key usage and the identifiers below, Python 3.13 trusts none of its certificates.
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        made = ("-key", self._key("ca"), "-out", str(self.file), "-subj", "/CN=test", "-days", "2")
        self._openssl("req", "-x509", *made, *usage)

    def context(self, name: str, *, days: int = 2) -> ssl.SSLContext:
        """The TLS context of a server, for an alternative name such as `IP:127.0.0.1`."""
        if (name, days) not in self._contexts:
            self._contexts[name, days] = self._certified(name, days)
        return self._contexts[name, days]

    def _certified(self, name: str, days: int) -> ssl.SSLContext:
        request, extension, certificate = (str(self.folder / f"server.{end}") for end in ("csr", "ext", "pem"))
        identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid"
        Path(extension).write_text(f"subjectAltName={name}\n{identifiers}\n")
        key = self._key("server")
        self._openssl("req", "-new", "-key", key, "-subj", "/CN=server", "-out", request)
        authority = ("-CA", str(self.file), "-CAkey", str(self.folder / "ca.key"), "-CAcreateserial")
        self._openssl(
            "x509", "-req", "-in", request, *authority, "-days", str(days), "-extfile", extension, "-out", certificate
        )
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(certificate, key)
        return made

    def _key(self, name: str) -> str:
        path = str(self.folder / f"{name}.key")
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
        return path

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=DEADLINE_S)


class TrafficSetup(NamedTuple):
    """What the traffic runs on: TLS or not, and the event loop of `serve`."""

    authority: Authority | None = None
    """Signs the certificates of upstreams; None if they do not use TLS."""
    uvloop: bool = False
    """Whether `serve` runs on uvloop's event loop, if that is installed, instead of asyncio's."""


surroundings = TrafficSetup()
"""The surroundings of `Upstream` and `serving`, unless a test replaces them."""


class Upstream:
    """A server on an ephemeral port of loopback that runs a script on every connection."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, receive_buffer: int = 0) -> None:
        if tls is None and surroundings.authority is not None:
            tls = surroundings.authority.context("IP:127.0.0.1")
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        if receive_buffer:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[Wire] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._failures: list[BaseException] = []
        self._is_over = False

    @property
    def authority(self) -> bytes:
        """The value that the Host header must have."""
        return b"127.0.0.1:%d" % self.port

    @property
    def url(self) -> str:
        """The URL to give to `serve`."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/mcp"

    def as_seen(self, sent: bytes) -> bytes:
        """Requests that a client sent with `Host: localhost`, as the upstream must receive them."""
        return sent.replace(b"Host: localhost\r\n", b"Host: %s\r\n" % self.authority)

    def heard(self) -> bytes:
        """All bytes received on all connections."""
        return b"".join(bytes(wire.received) for wire in self.connections)

    def connection(self, number: int = 0) -> Wire:
        """One of its connections, numbered in order of arrival."""
        wait_until(lambda: len(self.connections) > number, f"connection {number} of the upstream")
        return self.connections[number]

    def wait_for_end(self, number: int = 0, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the script of a connection is done."""
        wire = self.connection(number)
        wait_until(lambda: wire.is_closed, f"the end of connection {number} of the upstream", deadline_s)

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._is_over:
                sock.close()
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._tls is not None:
                sock.settimeout(DEADLINE_S)
                try:
                    sock = self._tls.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False)
                except (ssl.SSLError, OSError):  # the other side did not trust the test's certificate
                    sock.close()
                    return
            wire = Wire(sock)
            self.connections.append(wire)
            with wire:
                self._script(wire)
        except BaseException as failure:  # noqa: BLE001 - reported in the test's own thread
            if not self._is_over:
                self._failures.append(failure)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_over = True
        socket.create_connection(("127.0.0.1", self.port), DEADLINE_S).close()
        for wire in self.connections:
            with contextlib.suppress(OSError):
                wire.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        self._listener.close()
        for wire in self.connections:
            wire.close()
        if self._failures and error is None:
            raise self._failures[0]
        assert not any(thread.is_alive() for thread in self._threads)


def answering(answer: bytes | Callable[[bytes], bytes]) -> Script:
    """A script that answers each request until the other side closes."""

    def script(wire: Wire) -> None:
        while request := wire.request():
            wire.say(answer if isinstance(answer, bytes) else answer(request))

    return script


def listening(wire: Wire) -> None:
    """A script that reads to the end, and sends nothing."""
    wire.end()


def post(body: bytes, *fields: bytes) -> bytes:
    """A POST of JSON."""
    lines = (b"POST /mcp HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *fields)
    return b"\r\n".join((*lines, b"Content-Length: %d" % len(body), b"", body))


def chunked(*chunks: bytes) -> bytes:
    """A body in chunks, complete."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def free_port() -> int:
    """A port that nothing listens on, reserved until this process ends.

    A process that knows its number can still listen on it, with SO_REUSEADDR, which servers set.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    held.detach()  # stays open
    return port


def assert_ours(answer: bytes, status: int) -> None:
    """Assert that a response is complete, marked as mcpproxy's, and not mistaken for a JSON-RPC response."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"\r\nMcpproxy-Refused: %d" % status in head
    assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in head
    assert b"\r\nConnection: close\r\n" in head
    assert b"\r\nContent-Length: %d\r\n" % len(body) in head
    assert body.startswith(b"mcpproxy: ")


def connected(address: tuple[str, int], receive_buffer: int = 0) -> Wire:
    """Connect to a server; the size of the receive buffer in bytes is the system's if it is 0."""
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(DEADLINE_S)
    sock.connect(address)
    return Wire(sock)


class Serving:
    """The recorder in front of an upstream, while it runs and afterwards."""

    def __init__(self, session: Session, capture: Path, address: tuple[str, int], url: str) -> None:
        self.session = session
        self.capture = capture
        self.address = address
        self.url = url
        """The URL that it printed on stdout."""
        self.errors = b""
        """Its stderr, once it has been stopped."""

    @property
    def pid(self) -> int:
        """The pid of the recorder."""
        return self.session.pid

    def client(self, receive_buffer: int = 0) -> Wire:
        """Connect to it."""
        return connected(self.address, receive_buffer)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send it a signal, and wait for its end; returns its exit status."""
        if self.session.process.poll() is None:
            self.session.process.send_signal(signum)
        status = self.session.end()
        self.errors += self.session.errors()
        return status

    def wait_to_hear(self, mark: bytes) -> None:
        """Wait until its stderr contains a mark."""
        stream = self.session.process.stderr
        assert stream is not None
        while mark not in self.errors:
            piece = read_some(stream.fileno())
            assert piece, self.errors
            self.errors += piece

    def records(self) -> list[Record]:
        """All records of its capture."""
        return records(self.capture)

    def exchanges(self) -> list[dict[str, Any]]:
        """The last record of each exchange so far, in the order of their numbers."""
        last = {members["exchange"]: members for members in members_of(self.capture, "exchange")}
        return [last[number] for number in sorted(last)]

    def stages(self) -> list[str]:
        """The stage that each exchange has reached."""
        return [members["stage"] for members in self.exchanges()]

    def ids(self) -> list[int]:
        """The ids of the clients' JSON-RPC messages, in the order recorded."""
        return [int(frame.verdict.id or b"-1") for frame in frames(self.capture, "c2s")]

    def ended(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until this number of exchanges has ended; returns the same as `exchanges`."""

        def all_ended() -> list[dict[str, Any]]:
            found = [members for members in self.exchanges() if members["stage"] == "end"]
            return found if len(found) >= count else []

        return wait_until(all_ended, f"{count} exchanges to end")

    def memory(self) -> int:
        """Its peak resident memory so far, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def descriptors(self) -> int:
        """The number of its open descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def start_serving(place: Place, *arguments: str, **how: Any) -> tuple[Session, Path]:
    """Start `mcpproxy serve`; returns its session, and where it records.

    It is forked from a process that has loaded it, unless `how` has arguments of `Place.start`.
    """
    capture = place.root / f"serve-{len(place.sessions)}.mcpcap"
    if surroundings.authority is not None and arguments[-1].startswith("https:") and "--ca-file" not in arguments:
        arguments = ("--ca-file", str(surroundings.authority.file), *arguments)
    if not how:
        words = ["serve", "--capture", str(capture), *arguments]
        code = "" if surroundings.uvloop else _WITHOUT_UVLOOP
        process = Started(words, place.environment, code=code, stdin=subprocess.PIPE, loads="serve")
        session = Session(process, place, None)
        place.sessions.append(session)
        return session, capture
    start = ["-m", "mcpproxy"] if surroundings.uvloop else ["-c", _WITHOUT_UVLOOP]
    command = [sys.executable, "-P", *start, "serve", "--capture", str(capture), *arguments]
    return place.start(command, direct=True, **how), capture


@contextlib.contextmanager
def serving(place: Place, upstream: Upstream | str, *options: str, **how: Any) -> Iterator[Serving]:
    """The recorder in front of an upstream while the block runs; it must then exit normally."""
    url = upstream if isinstance(upstream, str) else upstream.url
    session, capture = start_serving(place, *options, url, **how)
    told = session.line().decode().strip()
    assert told, session.errors()
    host, _, port = told.removeprefix("http://").partition("/")[0].rpartition(":")
    served = Serving(session, capture, (host.strip("[]"), int(port)), told)
    is_killed = False
    try:
        yield served
        is_killed = session.process.poll() == -signal.SIGKILL
    finally:
        status = served.stop()
    assert is_killed or status == 0, served.errors
    lines = served.errors.splitlines()
    assert all(line.startswith(b"mcpproxy: ") and b"fault of" not in line for line in lines), lines
