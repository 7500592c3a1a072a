"""Put a proxy in front of an HTTP server: record everything that client and server exchange.

URL is the address that you would otherwise give to the client. The URL to give the client instead is printed on stdout.
Requests to every path of the server pass, so its OAuth and `.well-known` addresses work as well. Responses pass
unchanged, except that an address of the server itself becomes relative if it would lead the client around the recorder.

It ends on Ctrl-C or SIGTERM. Exit code: 0; 2 for wrong usage, or if it cannot listen on the address; 73 if the capture
cannot be created.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import time

from captures.addresses import is_segment
from mcpproxy.cli.arguments import Parser, add_machine, count
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.http_listener import (
    UsageError,
    admission_of,
    bound_socket,
    checked_url,
    connection_limit,
    is_wildcard,
    loop_factory,
    named_machine,
    rate_limited,
    ready_to_relay,
    stderr_lines,
    upstream_of,
)
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.relay.descriptors import USUAL
from mcpproxy.relay.http.listener import HttpRelay
from mcpproxy.relay.http.shared import Shared
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, size


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `serve`."""
    parser = Parser("serve", __doc__)
    parser.add_argument("url", metavar="URL", help="the server's address, such as https://example.com/mcp")
    parser.add_argument(
        "--listen",
        metavar="PORT|HOST:PORT",
        default="127.0.0.1:0",
        help="where to listen; a port alone means that port on 127.0.0.1 (default: a free port on 127.0.0.1)",
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
        default=True,
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
        help=f"how many connections clients may have at a time; each uses two open files (default: {USUAL:,}, "
        "or fewer if the system allows fewer)",
    )
    parser.add_argument(
        "--dangerously-listen-beyond-loopback",
        action="store_true",
        help="allow --listen on an address that other machines can reach: they can use the server as if they were you",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Relay until a signal arrives, then end the process; returns the exit code if it cannot listen."""
    options = parser().parse_args(arguments)
    try:
        url = checked_url(options.url)
        machine = named_machine(options.machine or "")
        if not all(map(is_segment, options.keep_path)):
            raise UsageError("--keep-path must be a single path segment, without /, ? and #; repeat it for others")
        upstream = upstream_of(url, options.ca_file, insecure=options.insecure)
        limit = connection_limit(options.max_connections)
        listener = bound_socket(options.listen, beyond=options.dangerously_listen_beyond_loopback)
        host, port = listener.getsockname()[:2]
        admission = admission_of([*options.allow_host, *([] if is_wildcard(host) else [host])])
    except UsageError as error:
        return fail(str(error), Exit.USAGE)
    with listener:
        start_ns = time.monotonic_ns()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        recorder = HttpRecorder(
            options.url,
            rate_limited(stderr_lines.put),
            name=options.name,
            capture=options.capture,
            listen=address,
            via=None if upstream.proxy is None else f"{upstream.proxy[0]}:{upstream.proxy[1]}",
            keep_path=options.keep_path,
            machine=machine,
            opt_outs=[
                name
                for name in ("insecure", "rewrite-location", "keep-path")
                if getattr(options, name.replace("-", "_"))
            ],
        )
        shared = Shared(upstream, admission, recorder, recorder.tell, rewrites=options.rewrite_location, most=limit)
        relay = HttpRelay(shared)
        client_url = f"http://{address}{url.path or '/'}{'?' + url.query if url.query else ''}"
        # Over TLS, uvloop may drop the end of what an upstream sent if reading was paused and no close_notify came.
        factory = loop_factory() if upstream.tls is None else None
        loop = (factory or asyncio.new_event_loop)()
        loop.run_until_complete(_serve(relay, recorder, listener, client_url))
    frames = sum(recorder.frames.values())
    stderr_lines.put(
        f"{recorder.name} · {duration(time.monotonic_ns() - start_ns)} · {count_text(recorder.exchanges, 'exchange')}, "
        f"{count_text(frames, 'frame')}, {size(sum(recorder.bytes.values()))} · recorded to {recorder.path}"
    )
    stderr_lines.flush()
    # Everything is closed and reported. A normal exit would wait for asyncio's threads, which may be waiting for a name
    # server that does not respond, or for a disk that hangs.
    os._exit(Exit.FINE)


async def _serve(relay: HttpRelay, recorder: HttpRecorder, listener: socket.socket, url: str) -> None:
    stopped = ready_to_relay()
    recorder.start()
    await relay.listen(listener)
    # The URL goes only to stdout: it may contain the client's credential, and logs keep stderr.
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
    origin = "/".join(url.split("/", 3)[:3])
    stderr_lines.put(
        f"recording {recorder.name} to {recorder.path}; give the client the URL on stdout, {origin}/…; "
        "press Ctrl-C to stop"
    )
    await stopped.wait()
    await relay.close()
    await recorder.finish("signal")
