"""Stand in front of one HTTP server: everything that crosses is recorded, and nothing is changed.

URL is the server's, as a client would be given it. The URL to give the client instead is printed on stdout. Requests to
every path of the server go there, so its OAuth and `.well-known` addresses work as well.

It ends with Ctrl-C or SIGTERM. Exit code: 0; 2 for wrong usage, or where the address to listen on cannot be had; 73
where the capture cannot be created.
"""

import argparse
import asyncio
import contextlib
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

from captures.addresses import is_segment
from mcpproxy.cli.arguments import Parser, count
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.relay.admission import Admission
from mcpproxy.relay.descriptors import USUAL, TooFewDescriptors, connections
from mcpproxy.relay.http import HttpRelay
from mcpproxy.relay.rewrite import Origin
from mcpproxy.relay.upstream import Upstream
from mcpproxy.report.text import count_text
from mcpproxy.report.units import size

SAID_LINES: Final = 1000
"""Lines for stderr that may wait."""
SAID_S: Final = 1.0
"""How long they may hold up the end."""
TELL_S: Final = 10.0
"""How long the same line is not said again: a client may try an upstream that is away a hundred times a second."""
SWITCH_S: Final = 0.0002
_PORTS: Final = {"http": 80, "https": 443}


class UsageError(Exception):
    """The arguments make no sense; the text says which and what to do."""


def parser() -> argparse.ArgumentParser:
    """The arguments of `serve`."""
    parser = Parser("serve", __doc__)
    parser.add_argument("url", metavar="URL", help="the server's address, such as https://example.com/mcp")
    parser.add_argument(
        "--listen",
        metavar="PORT|HOST:PORT",
        default="127.0.0.1:0",
        help="where to listen; a port alone means 127.0.0.1 (default: a free port of 127.0.0.1)",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the server's name, for `ls` and the folder (default: its host and port)"
    )
    parser.add_argument(
        "--capture",
        metavar="FILE|DIR/",
        help="record to a new FILE.mcpcap, or to a new file in DIR (default: the user's data directory)",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="trust the certificates in FILE, in PEM, beside the system's")
    parser.add_argument("--insecure", action="store_true", help="trust any certificate of the server; recorded as such")
    parser.add_argument(
        "--rewrite-location",
        action="store_true",
        help="make addresses of the server in redirects and the legacy endpoint event relative, so that clients stay; "
        "recorded as such",
    )
    parser.add_argument(
        "--keep-path",
        metavar="SEGMENT",
        action="append",
        default=[],
        help="store this path segment in clear; all others, except common words such as mcp, sse and v1, are stored "
        "as keyed hashes; may be repeated",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name under which clients, and pages in browsers, may reach us; may be repeated",
    )
    parser.add_argument(
        "--max-connections",
        type=count,
        metavar="N",
        help=f"how many connections clients may have at a time; each uses two open files (default: {USUAL:,}, "
        "or fewer if the system allows fewer)",
    )
    parser.add_argument(
        "--dangerously-listen-beyond-loopback",
        action="store_true",
        help="allow --listen on an address that other machines can reach: they use the server as if they were you",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Serve until a signal ends it; the process ends here."""
    options = parser().parse_args(arguments)
    try:
        url = _checked(options.url)
        if not all(map(is_segment, options.keep_path)):
            raise UsageError("--keep-path is one segment of a path, without /, ? and #; repeat it for others")
        upstream = _upstream(url, options.ca_file, insecure=options.insecure)
        most = _most(options.max_connections)
        listener = _listener(options.listen, beyond=options.dangerously_listen_beyond_loopback)
        host, port = listener.getsockname()[:2]
        admission = _admission([*options.allow_host, *([] if _is_wildcard(host) else [host])])
    except UsageError as error:
        return fail(str(error), Exit.USAGE)
    with listener:
        began = time.monotonic()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        recorder = HttpRecorder(
            options.url,
            _seldom(_said.put),
            name=options.name,
            capture=options.capture,
            listen=place,
            via=None if upstream.proxy is None else f"{upstream.proxy[0]}:{upstream.proxy[1]}",
            keep_path=options.keep_path,
            opt_outs=[
                name
                for name in ("insecure", "rewrite-location", "keep-path")
                if getattr(options, name.replace("-", "_"))
            ],
        )
        origin = Origin(url.scheme, upstream.host, upstream.port) if options.rewrite_location else None
        relay = HttpRelay(upstream, admission, recorder, recorder.tell, origin, most=most)
        shown = f"http://{place}{url.path or '/'}{'?' + url.query if url.query else ''}"
        # Over TLS, uvloop may drop the end of what an upstream sent if reading was paused and no close_notify came.
        factory = _loop_factory() if upstream.tls is None else None
        loop = (factory or asyncio.new_event_loop)()
        loop.run_until_complete(_serve(relay, recorder, listener, shown))
    frames = sum(recorder.frames.values())
    _said.put(
        f"{recorder.name} · {time.monotonic() - began:.1f}s · {count_text(recorder.exchanges, 'exchange')}, "
        f"{count_text(frames, 'frame')}, {size(sum(recorder.bytes.values()))} · recorded to {recorder.path}"
    )
    _said.flush()
    # All is closed and told. Leaving in the usual way would wait for the threads of asyncio, one of which may be
    # looking for a host's name at a server that does not answer, or writing to a disk that hangs.
    os._exit(Exit.FINE)


async def _serve(relay: HttpRelay, recorder: HttpRecorder, listener: socket.socket, url: str) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, stopped.set)
    # The thread that writes must not keep the loop waiting for its turn: 5 ms, by default.
    sys.setswitchinterval(SWITCH_S)
    # What is loaded by now is not garbage, and scanning it repeatedly costs a POST 5 µs.
    gc.freeze()
    recorder.start()
    await relay.listen(listener)
    # On stdout alone: it may hold the client's credential, and logs keep stderr.
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
    origin = "/".join(url.split("/", 3)[:3])
    _said.put(
        f"recording {recorder.name} to {recorder.path}; give the client the URL on stdout, {origin}/…; Ctrl-C ends"
    )
    await stopped.wait()
    await relay.close()
    await recorder.finish("signal")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop where it is installed: half the time of a round trip."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _checked(text: str) -> SplitResult:
    # Neither the text nor the error, which quotes it, is shown: any part of it may be a credential.
    try:
        url = urlsplit(text)
        (url.hostname or "").encode("idna")
    except ValueError as error:
        raise UsageError("URL is malformed; write http://HOST:PORT/PATH or https://HOST/PATH") from error
    try:
        port = url.port
    except ValueError as error:
        raise UsageError("the port in URL is not a number from 1 to 65535; write http://HOST:PORT/PATH") from error
    if url.scheme not in _PORTS or not url.hostname:
        raise UsageError("URL is not an http or https address; write http://HOST:PORT/PATH or https://HOST/PATH")
    if url.username is not None or url.password is not None:
        bare = f"{url.scheme}://{url.netloc.rpartition('@')[2]}/…"
        raise UsageError(
            f"other users of this machine can see credentials in a URL: write {bare} and let the client send its own"
        )
    if url.fragment or port == 0 or any(char.isspace() or not char.isprintable() for char in text):
        raise UsageError("the address must have no fragment, no white space and no port 0")
    return url


def _upstream(url: SplitResult, ca_file: str | None, *, insecure: bool) -> Upstream:
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
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


def _most(wanted: int | None) -> int:
    if wanted == 0:
        raise UsageError("--max-connections 0 would serve no client; use 1 or more")
    try:
        most = connections(wanted)
    except TooFewDescriptors as error:
        raise UsageError(
            f"--max-connections {wanted} needs {error.needed} open files, but the system allows {error.allowed}: "
            f"raise the limit (ulimit -Hn, LimitNOFILE=), or use {error.connections} or fewer"
        ) from error
    if wanted is None and most < USUAL:
        say(f"the limit of open files allows {count_text(most, 'connection')} at a time; to serve more, raise it")
    return most


def _admission(names: list[str]) -> Admission:
    try:
        return Admission(names)
    except UnicodeError as error:
        raise UsageError(f"--allow-host {' '.join(names)!r} is no host's name: {error}") from error


def _proxy(host: str) -> tuple[str, int] | None:
    """The HTTP proxy that the environment names for https, if one is to be used for this host."""
    from urllib.request import getproxies, proxy_bypass

    named = getproxies().get("https")
    if not named or proxy_bypass(host):
        return None
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        found = (proxy.hostname or "", proxy.port or _PORTS.get(proxy.scheme, 80))
    except ValueError as error:
        raise UsageError(f"HTTPS_PROXY is no address: {error}") from error
    if proxy.scheme != "http" or not proxy.hostname or proxy.username is not None:
        raise UsageError("HTTPS_PROXY must be http://HOST:PORT, without credentials; or unset it")
    return found


def _listener(text: str, *, beyond: bool) -> socket.socket:
    """A socket bound to HOST:PORT, or to a port of the loopback address, not listening yet."""
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
        why = getattr(error, "strerror", None) or "that is no host's name"
        raise UsageError(f"cannot listen on {text}: {why}; name another address") from error
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not beyond:
        raise UsageError(
            f"--listen {text} can be reached by other machines, which could use the server as if they were you; "
            "if you want that, add --dangerously-listen-beyond-loopback"
        )
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(512)
    except OSError as error:
        bound.close()
        raise UsageError(f"cannot listen on {text}: {os.strerror(error.errno or 0)}; name another port") from error
    return bound


def _is_wildcard(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_unspecified


class _Said:
    """Lines on their way to stderr, which may have no reader any more: traffic never waits for it."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue(SAID_LINES)
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Say a line soon; it is lost where too many wait already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._say, name="stderr", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def _say(self) -> None:
        while True:
            say(self._lines.get())
            self._lines.task_done()

    def flush(self) -> None:
        """Wait until all lines are written, but at most `SAID_S`."""
        until = time.monotonic() + SAID_S
        with self._lines.all_tasks_done:
            while self._lines.unfinished_tasks and (left := until - time.monotonic()) > 0:
                self._lines.all_tasks_done.wait(left)


_said = _Said()


def _seldom(tell: Callable[[str], None]) -> Callable[[str], None]:
    """The same line at most once in ten seconds."""
    said: dict[str, float] = {}

    def tell_seldom(message: str) -> None:
        now = time.monotonic()
        if now - said.get(message, -TELL_S) >= TELL_S:
            if len(said) > 100:
                said.clear()
            said[message] = now
            tell(message)

    return tell_seldom
