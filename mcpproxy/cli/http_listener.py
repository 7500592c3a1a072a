"""Code that `serve` and `up` share: upstreams, listening sockets, the event loop, and messages on stderr."""

import asyncio
import gc
import ipaddress
import os
import queue
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcpproxy.cli.diagnostics import say
from mcpproxy.recorder.machine_name import MachineName, machine_name
from mcpproxy.relay.descriptors import (
    DEFAULT_CONNECTIONS,
    TooFewDescriptors,
    reserve_all_connections,
    reserve_connections,
)
from mcpproxy.relay.http.admission import AdmissionRule
from mcpproxy.relay.http.upstream import Upstream
from mcpproxy.wording.counts import count_text

SWITCH_INTERVAL_S: Final = 0.0002
"""How long a thread may hold the interpreter while another thread waits for it."""
_GARBAGE_THRESHOLDS: Final = (5_000, 50, 10)
"""When Python looks for reference cycles: after 5,000 new objects among these, after 50 × 10 times as many among all.

Objects of exchanges that have ended are freed without that, except for a few small ones of asyncio. A search among all
objects of 5,000 idle streams stops the traffic for 0.1 s.
"""
MAX_QUEUED_LINES: Final = 1000
"""The maximum number of lines that are queued for stderr."""
MAX_FLUSH_S: Final = 1.0
"""How long queued lines may delay the exit."""
REPEAT_INTERVAL_S: Final = 10.0
"""The time before the same line is printed again: a client may retry a dead upstream a hundred times a second."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class UsageError(Exception):
    """Raised for invalid arguments; the message says which one is invalid, and what to do."""


def checked_machine_name(requested_name: str) -> MachineName | None:
    """Return the name of this machine: the requested one, the one in the environment, or the host name.

    Raises:
        UsageError: the environment variable is invalid.
    """
    try:
        return machine_name(requested_name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parse_upstream_url(text: str) -> SplitResult:
    """Parse the URL of an upstream.

    Raises:
        UsageError: it is not a URL that can be served.
    """
    # Messages contain neither the text nor the error, which quotes it: any part of it may be a credential.
    try:
        url = urlsplit(text)
        (url.hostname or "").encode("idna")
    except ValueError as error:
        raise UsageError("URL is malformed; write http://HOST:PORT/PATH or https://HOST/PATH") from error
    try:
        port = url.port
    except ValueError as error:
        raise UsageError("the port in URL is not a number from 1 to 65535; write http://HOST:PORT/PATH") from error
    if url.scheme not in _DEFAULT_PORTS or not url.hostname:
        raise UsageError("URL is not an http or https address; write http://HOST:PORT/PATH or https://HOST/PATH")
    if url.username is not None or url.password is not None:
        origin = f"{url.scheme}://{url.netloc.rpartition('@')[2]}/…"
        raise UsageError(
            f"other users of this machine can see credentials in a URL: write {origin} and let the client send its own"
        )
    if url.fragment or port == 0 or any(char.isspace() or not char.isprintable() for char in text):
        raise UsageError("URL must not contain a fragment, white space or port 0")
    return url


def upstream_of(url: SplitResult, ca_file: str | None = None, *, insecure: bool = False) -> Upstream:
    """Return the upstream of a checked URL.

    Args:
        url: the URL.
        ca_file: a PEM file of certificates to trust in addition to the system's.
        insecure: whether to trust any certificate.

    Raises:
        UsageError: the certificates cannot be read, or HTTPS_PROXY is not an address.
    """
    host, port = url.hostname or "", url.port or _DEFAULT_PORTS[url.scheme]
    name = host.encode("idna").decode()
    authority = (f"[{name}]" if ":" in name else name).encode() + (f":{url.port}".encode() if url.port else b"")
    if url.scheme == "http":
        if ca_file or insecure:
            raise UsageError("--ca-file and --insecure are for https addresses")
        return Upstream(host, port, None, authority)
    try:
        tls = ssl.create_default_context()
        if ca_file:
            tls.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot read certificates from {ca_file}: {error}; name a file in PEM") from error
    tls.set_alpn_protocols(["http/1.1"])
    if insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return Upstream(host, port, tls, authority, _proxy(host))


def public_address(text: str, url: SplitResult | None) -> SplitResult:
    """Parse the public URL of a server, to which the upstream's path must be equal.

    Args:
        text: the public URL.
        url: the upstream's, checked; None for a Unix socket, which has no path of its own.

    Raises:
        UsageError: it is not an address that clients could be given, or nothing at the upstream corresponds to it.
    """
    try:
        public = urlsplit(text)
        (public.hostname or "").encode("idna")
        is_valid = public.scheme in _DEFAULT_PORTS and public.hostname and public.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or any(char.isspace() or not char.isprintable() for char in text):
        raise UsageError("--public is not an http or https address; write https://HOST/PATH")
    if public.username is not None or public.password is not None or "?" in text or "#" in text:
        raise UsageError(
            "--public must not contain credentials, a query or a fragment; write https://HOST/PATH as clients know it"
        )
    if url is not None and url.query:
        raise UsageError("URL must not contain a query with --public, because requests pass unchanged")
    if url is not None and (url.path or "/") != (public.path or "/"):
        raise UsageError(
            "the paths of --public and URL differ, but requests pass unchanged; write the same path in both"
        )
    return public


def _proxy(host: str) -> tuple[str, int] | None:
    """Return the address of the environment's proxy for https, or None if this host needs no proxy."""
    from urllib.request import getproxies, proxy_bypass

    proxy_text = getproxies().get("https")
    if not proxy_text or proxy_bypass(host):
        return None
    try:
        proxy = urlsplit(proxy_text if "://" in proxy_text else f"http://{proxy_text}")
        address = (proxy.hostname or "", proxy.port or _DEFAULT_PORTS.get(proxy.scheme, 80))
    except ValueError as error:
        raise UsageError(f"HTTPS_PROXY is not a valid URL: {error}; write http://HOST:PORT, or unset it") from error
    if proxy.scheme != "http" or not proxy.hostname or proxy.username is not None:
        raise UsageError("HTTPS_PROXY must be http://HOST:PORT, without credentials; or unset it")
    return address


def open_listener(text: str, *, beyond: bool) -> socket.socket:
    """Return a socket that listens on HOST:PORT, or on a port of the loopback address; `text` is the address.

    Raises:
        UsageError: it cannot be bound, or other machines could reach it and `beyond` does not allow that.
    """
    host, colon, port = (f"127.0.0.1:{text}" if text.isdecimal() else text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise UsageError(f"--listen {text!r} is not a port or HOST:PORT; write 9000, 127.0.0.1:9000, or [::1]:9000")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None,
            int(port),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a host name"
        raise UsageError(f"cannot listen on {text}: {reason}; choose another address") from error
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not beyond:
        raise UsageError(
            f"--listen {text} can be reached by other machines, which could use the server as if they were you; "
            "if you want that, add --dangerously-listen-beyond-loopback"
        )
    listening_socket = socket.socket(family, kind, protocol)
    try:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.bind(address)
        listening_socket.listen(512)
    except OSError as error:
        listening_socket.close()
        raise UsageError(f"cannot listen on {text}: {os.strerror(error.errno or 0)}; choose another port") from error
    return listening_socket


def is_wildcard(host: str) -> bool:
    """Whether a host address stands for all addresses of this machine."""
    return ipaddress.ip_address(host.partition("%")[0]).is_unspecified


def connection_limit(requested: int | None, *, is_public: bool = False) -> int:
    """Returns how many connections clients may have at a time.

    Args:
        requested: as many as this; None for the default.
        is_public: whether the default is what the system allows, as clients come from everywhere.

    Raises:
        UsageError: the system allows fewer connections than requested.
    """
    if requested == 0:
        raise UsageError("--max-connections 0 would serve no client; use 1 or more")
    if requested is None and is_public:
        return reserve_all_connections()
    try:
        limit = reserve_connections(requested)
    except TooFewDescriptors as error:
        raise UsageError(
            f"--max-connections {requested} needs {error.needed} open files, but the system allows {error.allowed}: "
            f"raise the limit (ulimit -Hn, LimitNOFILE=), or use {error.max_connections} or fewer"
        ) from error
    if requested is None and limit < DEFAULT_CONNECTIONS:
        say(f"the limit of open files allows {count_text(limit, 'connection')}; raise it (ulimit -Hn) to serve more")
    return limit


def admission_of(names: list[str]) -> AdmissionRule:
    """Return the admission rule for these host names.

    Raises:
        UsageError: a name is not a host name.
    """
    try:
        return AdmissionRule(names)
    except UnicodeError as error:
        raise UsageError(f"--allow-host {' '.join(names)!r} is not a host name: {error}") from error


def prepare_to_relay() -> asyncio.Event:
    """Set up the process and its running event loop for relaying; returns the event that a termination signal sets."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, stopped.set)
    set_up_process()
    return stopped


def set_up_process() -> None:
    """Set the process up for relaying."""
    # The writing thread must not make the loop wait for the interpreter, by default up to 5 ms.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # No object is garbage so far; scanning all of them repeatedly would cost 5 µs per POST.
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop factory of uvloop, if that is installed: it halves the time of a round trip."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class StderrWriter:
    """Writes lines to stderr from a thread, so that traffic never waits for a reader of stderr."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue(MAX_QUEUED_LINES)
        self._thread: threading.Thread | None = None
        self._is_direct = False
        self._left_out = 0

    def put(self, line: str) -> None:
        """Queue a line; it is dropped, and counted, if too many wait already."""
        if self._is_direct:
            say(line)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="stderr", daemon=True)
            self._thread.start()
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._left_out += 1

    def write_directly(self) -> None:
        """Write each line at once, without a thread, because this process is about to fork."""
        self._is_direct = True

    def defer(self) -> None:
        """Write lines from a thread again."""
        self._is_direct = False

    def _write_all(self) -> None:
        while True:
            say(self._lines.get())
            if self._left_out and self._lines.empty():
                left_out, self._left_out = self._left_out, 0
                say(f"{count_text(left_out, 'line')} left out here, because stderr was not read fast enough")
            self._lines.task_done()

    def flush(self) -> None:
        """Wait until all lines are written, but for at most `MAX_FLUSH_S`."""
        deadline_s = time.monotonic() + MAX_FLUSH_S
        with self._lines.all_tasks_done:
            while self._lines.unfinished_tasks and (remaining_s := deadline_s - time.monotonic()) > 0:
                self._lines.all_tasks_done.wait(remaining_s)


stderr_writer = StderrWriter()


def rate_limited(print_line: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that calls `print_line`, but for the same line at most once in ten seconds."""
    printed_at: dict[str, float] = {}

    def print_rarely(message: str) -> None:
        now = time.monotonic()
        if now - printed_at.get(message, -REPEAT_INTERVAL_S) >= REPEAT_INTERVAL_S:
            if len(printed_at) > 100:
                printed_at.clear()
            printed_at[message] = now
            print_line(message)

    return print_rarely
