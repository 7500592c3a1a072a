"""Serves a mock over HTTP: the options of `mock --listen`, the socket, and the end by a signal."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Final

from analysis.playback.script import Script
from mcpproxy.cli.http_listener import (
    admission_of,
    connection_limit,
    is_wildcard,
    loop_factory,
    open_listener,
    prepare_to_relay,
    rate_limited,
    stderr_writer,
)
from mcpproxy.mock.http.client import BeginConversation
from mcpproxy.mock.http.server import HttpMock
from mcpproxy.relay.http.socket_address import host_and_port

_RECORDS_BEFORE_URL: Final = 200
"""How many records are read before the URL is printed, which depends on the transport of the recording."""


def serve_mock(
    options: argparse.Namespace,
    script: Script,
    begin_conversation: BeginConversation,
    on_stderr: Callable[[bytes], None],
    on_complete: Callable[[], None],
) -> None:
    """Serve over HTTP until a signal arrives; the URL is printed on stdout once clients can connect.

    Args:
        options: the arguments of `mock`.
        script: the recording, which grows from now on.
        begin_conversation: begins a conversation that plays a recorded session.
        on_stderr: called with each line that the recorded server wrote to stderr.
        on_complete: called once the whole recording has been read.

    Raises:
        UsageError: it cannot listen on the address.
        CaptureError: the recording cannot be read.
    """
    limit = connection_limit(None)
    with open_listener(options.listen, beyond=options.dangerously_listen_beyond_loopback) as listener:
        host = listener.getsockname()[0]
        admission = admission_of([*options.allow_host, *([] if is_wildcard(host) else [host])])
        mock = HttpMock(
            script,
            begin_conversation,
            first_session=options.session,
            admission=admission,
            max_connections=limit,
            on_stderr=on_stderr,
            say=rate_limited(stderr_writer.put),
            on_complete=on_complete,
        )

        async def serve() -> None:
            stopped = prepare_to_relay()
            script.grow(_RECORDS_BEFORE_URL)
            await mock.listen(listener)
            with contextlib.suppress(OSError):
                sys.stdout.write(f"http://{host_and_port(listener.getsockname())}{mock.endpoint}\n")
                sys.stdout.flush()
            if script.is_complete:
                mock.wake()
            else:
                script.grow_in_thread(mock.wake)
            await stopped.wait()
            await mock.close()

        new_loop = loop_factory() or asyncio.new_event_loop
        loop = new_loop()
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()
    stderr_writer.flush()
