"""A mock over HTTP with as many connections as it may have."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from analysis.playback.matching import Matching
from analysis.playback.script import Script
from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.http.server import HttpMock
from mcpproxy.mock.options import MockOptions
from mcpproxy.relay.http.admission import AdmissionRule
from tests.harness import DEADLINE_S, ROOT

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
NOTHING = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def listening(max_connections: int) -> AsyncIterator[int]:
    """Yields the port of a mock."""
    script = Script(DEMO, Matching())
    errors: list[str] = []
    mock = HttpMock(
        script,
        lambda session, _: Conversation(script, session, MockOptions()),
        first_session=None,
        admission=AdmissionRule(),
        max_connections=max_connections,
        on_stderr=lambda _: None,
        say=errors.append,
        on_complete=lambda: None,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await mock.listen(listener)
        try:
            yield listener.getsockname()[1]
        finally:
            await mock.close()
            script.close()
    assert not errors


async def status_of(reader: asyncio.StreamReader) -> bytes:
    """Returns the status of the next response; empty if the connection was closed."""
    line = await asyncio.wait_for(reader.readline(), DEADLINE_S)
    return b"".join(line.split(b" ")[1:2])


@asynccontextmanager
async def connected(port: int, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Yields what answers bytes on a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await writer.drain()
        yield reader
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def test_idle_connections_do_not_keep_others_out() -> None:
    async def run() -> None:
        async with (
            listening(2) as port,
            connected(port, b"") as idle,
            connected(port, NOTHING[:20]),
            connected(port, NOTHING) as second,
        ):
            assert await status_of(second) == b"404"
            assert await status_of(idle) == b""
            async with connected(port, NOTHING) as third:
                assert await status_of(third) == b"404"

    asyncio.run(run())
