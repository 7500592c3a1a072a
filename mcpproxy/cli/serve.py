"""Put a proxy in front of an HTTP server: record everything that client and server exchange.

URL is the address that you would otherwise give to the client. The URL to give the client instead is printed on stdout.
Requests to every path of the server pass, so its OAuth and `.well-known` addresses work as well. Responses pass
unchanged, except that an address of the server itself becomes relative if it would lead the client around the recorder.

With --public, the recorder stands in front of your own server, behind its tunnel or load balancer: clients keep using
the server's public address, and requests and responses pass entirely unchanged.

After --, a COMMAND with its arguments starts the server; clients are accepted once it listens on the address in URL.

It ends on Ctrl-C or SIGTERM, or as COMMAND ends. Exit code: 0; 2 for wrong usage, or if it cannot listen on the
address; 73 if the capture cannot be created; with COMMAND its own, 1 if it does not listen, and 126 or 127 if it cannot
be run or found.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import socket
import sys
import time
from typing import Final, NamedTuple

from captures.addresses import is_segment
from mcpproxy.cli.access_log import access_line
from mcpproxy.cli.arguments import Parser, add_machine, count
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.http_listener import (
    UsageError,
    admission_of,
    checked_machine_name,
    connection_limit,
    is_wildcard,
    loop_factory,
    open_listener,
    parse_upstream_url,
    prepare_to_relay,
    public_address,
    rate_limited,
    stderr_writer,
    upstream_of,
)
from mcpproxy.cli.served_command import ServedCommand, is_listening
from mcpproxy.cli.unix_socket import UnixListener
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.recorder.machine_name import MachineName
from mcpproxy.recorder.process_events import process_end_record
from mcpproxy.recorder.served_process import ServedProcessEvents
from mcpproxy.relay.descriptors import DEFAULT_CONNECTIONS
from mcpproxy.relay.http.admission import AdmissionRule
from mcpproxy.relay.http.listener import HttpRelay
from mcpproxy.relay.http.shared import SharedState
from mcpproxy.relay.http.socket_address import host_and_port
from mcpproxy.relay.http.upstream import Upstream
from mcpproxy.relay.spawn import EnvironmentBlock, SpawnError, occupy_stdio
from mcpproxy.relay.stdio import ServerExit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, size

UNIX: Final = "unix:"
"""How the address of a Unix socket begins."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `serve`."""
    parser = Parser("serve", __doc__)
    parser.add_argument(
        "url",
        metavar="URL",
        help="the server's address, such as https://example.com/mcp; with --public, also unix:PATH",
    )
    parser.add_argument(
        "--listen",
        metavar="PORT|HOST:PORT|unix:PATH",
        default="127.0.0.1:0",
        help="where to listen; a port alone means that port on 127.0.0.1, and unix:PATH a new Unix socket, to which "
        "your user and group can connect (default: a free port on 127.0.0.1)",
    )
    parser.add_argument(
        "--public",
        metavar="URL",
        help="the address by which clients reach your own server; everything passes unchanged, Host and X-Forwarded-* "
        "included, and it is for the server to check Host and Origin",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the server's name, for `ls` and the folder (default: its host and port)"
    )
    parser.add_argument(
        "--capture",
        metavar="FILE|DIR/",
        help="record to a new FILE.mcpcap, or to a new file in DIR (default: the user's data directory)",
    )
    add_machine(
        parser,
        "the name of this machine in the capture (default: MCPPROXY_MACHINE, or the host name)",
    )
    parser.add_argument(
        "--ca-file", metavar="FILE", help="trust the certificates in FILE (PEM) in addition to the system's"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="trust any certificate of the server; the capture notes this"
    )
    parser.add_argument(
        "--rewrite-location",
        action="store_true",
        default=None,
        help="make the server's own addresses relative in redirects and in the legacy endpoint event, so that the "
        "client keeps using the proxy; the capture holds both addresses (default)",
    )
    parser.add_argument(
        "--no-rewrite-location",
        action="store_false",
        dest="rewrite_location",
        help="pass on the server's own addresses unchanged: clients that follow them leave the proxy, and those "
        "that stay within one origin fail",
    )
    parser.add_argument(
        "--keep-path",
        metavar="SEGMENT",
        action="append",
        default=[],
        help="store this path segment in plain text; all others, except common words such as mcp, sse and v1, are "
        "stored as keyed hashes; can be repeated",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name under which clients, and pages in browsers, can reach the proxy; can be repeated",
    )
    parser.add_argument(
        "--max-connections",
        type=count,
        metavar="N",
        help="how many connections clients may have at a time; each uses two open files (default: "
        f"{DEFAULT_CONNECTIONS:,}, or fewer if the system allows fewer; with --public, as many as the system allows)",
    )
    parser.add_argument(
        "--access-log",
        action="store_true",
        help="print a line on stderr for each request once it has ended: who asked for what, and what came back",
    )
    parser.add_argument(
        "--dangerously-listen-beyond-loopback",
        action="store_true",
        help="allow --listen on an address that other machines can reach: they can use the server as if they were you",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Serve until a signal arrives, then end the process."""
    words, command = _split_at_command(arguments)
    closed: frozenset[int] = frozenset()
    if command is not None:
        closed = occupy_stdio()
        stderr_writer.write_directly()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    options = parser().parse_args(words)
    try:
        endpoint = _endpoint(options)
        machine = checked_machine_name(options.machine or "")
        if not all(map(is_segment, options.keep_path)):
            raise UsageError("--keep-path must be a single path segment, without /, ? and #; repeat it for others")
        if command is not None:
            _judge_command(command, endpoint.upstream)
        limit = connection_limit(options.max_connections, is_public=options.public is not None)
        listener, unix = _listener(options)
        admission = None if options.public is not None else _admission(listener, options.allow_host)
    except UsageError as error:
        return fail(str(error), Exit.USAGE)
    with contextlib.ExitStack() as stack:
        stack.enter_context(listener)
        if unix is not None:
            stack.callback(unix.remove_path)
        start_ns = time.monotonic_ns()
        address = f"unix:{unix.path}" if unix is not None else host_and_port(listener.getsockname())
        environment = EnvironmentBlock()
        recorder = _recorder(options, endpoint, address, command, environment, machine)
        upstream, rewrites = endpoint.upstream, "rewrite-location" in endpoint.opt_outs
        relay = HttpRelay(SharedState(upstream, admission, recorder, recorder.say, rewrites=rewrites, most=limit))
        # Over TLS, uvloop may drop the end of what an upstream sent if reading was paused and no close_notify came.
        new_loop = (loop_factory() if upstream.tls is None else None) or asyncio.new_event_loop
        traffic = _Traffic(relay, recorder, listener, address, endpoint)
        status, served = int(Exit.FINE), None
        try:
            if command:
                served = ServedCommand(traffic, recorder, upstream, new_loop, closed=closed, files=files)
                status = served.run(command, environment)
            else:
                new_loop().run_until_complete(_serve(traffic))
        except SpawnError as error:
            return fail(str(error), Exit(error.status))
    frames = sum(recorder.frame_counts.values())
    stderr_writer.put(
        f"{recorder.name} · {duration(time.monotonic_ns() - start_ns)} · "
        f"{count_text(recorder.exchange_count, 'exchange')}, "
        f"{count_text(frames, 'frame')}, {size(sum(recorder.byte_counts.values()))} · recorded to {recorder.path}"
    )
    stderr_writer.flush()
    if served is not None:
        served.die_by_its_signal()
    # Everything is closed and reported. A normal exit would wait for the threads of asyncio, one of which may be
    # waiting for a name server that does not respond, or for a disk that hangs.
    os._exit(status)


def _recorder(
    options: argparse.Namespace,
    endpoint: "_Endpoint",
    address: str,
    command: list[bytes] | None,
    environment: EnvironmentBlock,
    machine: MachineName | None,
) -> HttpRecorder:
    proxy = endpoint.upstream.proxy
    recorder = HttpRecorder(
        options.url,
        rate_limited(stderr_writer.put),
        name=options.name,
        capture=options.capture,
        listen=address,
        via=None if proxy is None else f"{proxy[0]}:{proxy[1]}",
        keep_path=options.keep_path,
        machine=machine,
        opt_outs=endpoint.opt_outs,
        public=options.public,
        command=command or (),
        environment=environment if command else None,
    )
    if options.access_log:
        recorder.on_exchange_end = lambda exchange: stderr_writer.put(access_line(exchange))
    return recorder


def _split_at_command(arguments: list[str]) -> tuple[list[str], list[bytes] | None]:
    """Returns the arguments of `serve`, and the command after them; None if there is no `--`."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], [os.fsencode(word) for word in arguments[at + 1 :]]


def _judge_command(command: list[bytes], upstream: Upstream) -> None:
    if not command or not command[0]:
        raise UsageError(
            "the server's command is missing after --; write: mcpproxy serve URL -- COMMAND [ARGUMENT ...]"
        )
    if is_listening(upstream):
        raise UsageError(
            "a process listens on the address in URL already, so COMMAND could not: end it, or leave COMMAND out"
        )


class _Endpoint(NamedTuple):
    """What is served."""

    upstream: Upstream
    path: str
    """The path of the address that clients use, with its query."""
    public: str | None
    """The origin by which clients reach it, if that is not ours."""
    opt_outs: list[str]


def _endpoint(options: argparse.Namespace) -> _Endpoint:
    rewrites = options.public is None and options.rewrite_location is not False
    chosen = {"insecure": options.insecure, "rewrite-location": rewrites, "keep-path": options.keep_path}
    opt_outs = [name for name, is_chosen in chosen.items() if is_chosen]
    if options.public is None:
        if options.url.startswith(UNIX):
            raise UsageError("URL can be a Unix socket only with --public, which says by what address clients reach it")
        url = parse_upstream_url(options.url)
        path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
        upstream = upstream_of(url, options.ca_file, insecure=options.insecure)
        return _Endpoint(upstream, path, None, opt_outs)
    for option, is_given in (("--rewrite-location", options.rewrite_location), ("--allow-host", options.allow_host)):
        if is_given:
            raise UsageError(f"{option} cannot be combined with --public, which changes and checks nothing")
    if options.url.startswith(UNIX):
        if options.ca_file or options.insecure:
            raise UsageError("--ca-file and --insecure are for https addresses")
        public = public_address(options.public, None)
        upstream = Upstream("", 0, None, b"", unix=os.path.abspath(options.url.removeprefix(UNIX)))
    else:
        url = parse_upstream_url(options.url)
        public = public_address(options.public, url)
        upstream = upstream_of(url, options.ca_file, insecure=options.insecure)
    return _Endpoint(upstream, public.path or "/", f"{public.scheme}://{public.netloc}", opt_outs)


def _listener(options: argparse.Namespace) -> tuple[socket.socket, UnixListener | None]:
    if not options.listen.startswith(UNIX):
        return open_listener(options.listen, beyond=options.dangerously_listen_beyond_loopback), None
    if options.public is None:
        raise UsageError("--listen unix:PATH needs --public: clients themselves cannot reach a Unix socket")
    unix = UnixListener(options.listen.removeprefix(UNIX))
    return unix.socket, unix


def _admission(listener: socket.socket, names: list[str]) -> AdmissionRule:
    host = listener.getsockname()[0]
    return admission_of([*names, *([] if is_wildcard(host) else [host])])


class _Traffic:
    """The traffic of the listener, from the first client to the end of the recording."""

    def __init__(
        self, relay: HttpRelay, recorder: HttpRecorder, listener: socket.socket, address: str, endpoint: _Endpoint
    ) -> None:
        self._relay, self._recorder, self._listener = relay, recorder, listener
        self._address, self._endpoint = address, endpoint

    async def begin(self) -> None:
        """Accept clients, and tell the user where."""
        address, endpoint, recorder = self._address, self._endpoint, self._recorder
        recorder.start()
        await self._relay.listen(self._listener)
        is_unix = address.startswith(UNIX)
        origin = address if is_unix else f"http://{address}"
        # Only on stdout: the URL may contain the client's credential, and logs keep stderr.
        with contextlib.suppress(OSError):
            sys.stdout.write(f"{origin}{'' if is_unix else endpoint.path}\n")
            sys.stdout.flush()
        advice = (
            f"give the client the URL on stdout, {origin}/…"
            if endpoint.public is None
            else f"let the tunnel or load balancer of {endpoint.public}/… forward to {origin}"
        )
        stderr_writer.put(f"recording {recorder.name} to {recorder.path}; {advice}; press Ctrl-C to stop")

    async def end(self, ending: str, process: ServedProcessEvents | None = None, how: ServerExit | None = None) -> None:
        """End all connections, and the recording."""
        await self._relay.close()
        if process is None or how is None:
            await self._recorder.finish(ending)
            return
        last = [*process.rest(), process_end_record(how.status, how.signum)]
        await self._recorder.finish(ending, status=how.status, signum=how.signum, last=last, more_totals=process.totals)


async def _serve(traffic: _Traffic) -> None:
    stopped = prepare_to_relay()
    await traffic.begin()
    await stopped.wait()
    await traffic.end("signal")
