"""What the connections of `serve` keep in memory, measured in a relay with its recorder in this process."""

import asyncio
import contextlib
import gc
import socket
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import mcpproxy
from mcpproxy.recorder.exchange import ExchangeRecorder
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.relay.http.admission import AdmissionRule
from mcpproxy.relay.http.listener import HttpRelay
from mcpproxy.relay.http.shared import SharedState
from mcpproxy.relay.http.upstream import Upstream
from tests.harness import wait_until

STREAMS = 200
MOST_BYTES = 8_000
"""For each stream, in objects that our code creates. It took 5,000 when this was written."""

FIELDS = (
    b"Date: Mon, 30 Nov 2026 10:00:00 GMT\r\nServer: uvicorn\r\nCache-Control: no-cache, no-transform\r\n"
    b"Connection: keep-alive\r\nMcp-Session-Id: 0123456789abcdef0123456789abcdef\r\n"
)
GET = (
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip, deflate\r\n"
    b"Connection: keep-alive\r\nUser-Agent: python-httpx/0.28.1\r\nAuthorization: Bearer 0123456789abcdef\r\n"
    b"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\nMcp-Protocol-Version: 2025-11-25\r\n\r\n"
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" + FIELDS + b"\r\n"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
POST = (
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(PING)
    + PING
)
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(RESULT) + RESULT


class Client:
    """Clients of a relay."""

    def __init__(self, port: int, recorder: HttpRecorder) -> None:
        self.recorder = recorder
        self._port = port

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect; closes the connection at the end of the block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def idle_streams(self, count: int) -> AsyncIterator[None]:
        """Keep streams open on which nothing is sent."""
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                reader, writer = await stack.enter_async_context(self.connection())
                writer.write(GET)
                await reader.readuntil(b"\r\n\r\n")
            yield


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Open a stream for each GET, and answer each POST."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                await reader.readexactly(len(PING))
            writer.write(ANSWER if head.startswith(b"POST") else STREAM)
    writer.close()


@contextlib.asynccontextmanager
async def relaying(place: Path, *, is_public: bool = False) -> AsyncIterator[Client]:
    """Relay to a server, and record."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    said: list[str] = []
    recorder = HttpRecorder(
        f"http://127.0.0.1:{port}/mcp",
        said.append,
        capture=f"{place}/",
        machine=None,
        public="https://mcp.example.org/mcp" if is_public else None,
    )
    upstream = Upstream("127.0.0.1", port, None, b"127.0.0.1:%d" % port)
    admission = None if is_public else AdmissionRule()
    shared = SharedState(upstream, admission, recorder, said.append, rewrites=not is_public, most=10 * STREAMS)
    relay = HttpRelay(shared)
    recorder.start()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        await relay.listen(listener)
        yield Client(listener.getsockname()[1], recorder)
        await relay.close()
    await recorder.finish("signal")
    server.close()
    await server.wait_closed()
    assert said == []


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds."""
    await asyncio.to_thread(wait_until, condition)


def our_objects() -> "Counter[type]":
    """Count all objects of the relay, the recorder and the framing that Python's garbage collector knows."""
    parts = ("mcpproxy.relay.", "mcpproxy.recorder.", "mcpproxy.wire.")
    return Counter(type(each) for each in gc.get_objects() if str(type(each).__module__).startswith(parts))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.parametrize("is_public", [False, True])
def test_an_idle_stream_takes_little_memory(place: Path, is_public: bool) -> None:
    folder = Path(mcpproxy.__file__).parent

    async def measure() -> float:
        async with relaying(place, is_public=is_public) as client, client.idle_streams(20):
            tracemalloc.start()
            try:
                async with client.idle_streams(STREAMS):
                    await until(lambda: client.recorder.exchange_count == 20 + STREAMS)
                    gc.collect()
                    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{folder}/*")])
            finally:
                tracemalloc.stop()
        return sum(each.size for each in taken.statistics("filename")) / STREAMS

    assert asyncio.run(measure()) <= MOST_BYTES


def test_what_has_ended_is_freed_without_a_search_for_garbage(place: Path) -> None:
    # A search stops all traffic, and takes the longer, the more streams are open.
    async def traffic() -> None:
        async with relaying(place) as client:
            gc.collect()
            before = our_objects()
            gc.disable()
            try:
                async with client.idle_streams(5), client.connection() as (reader, writer):
                    for _ in range(20):
                        writer.write(POST)
                        await reader.readexactly(len(ANSWER))
                    await until(lambda: client.recorder.exchange_count == 25)
                    # Each connection may keep its latest exchange.
                    assert (our_objects() - before)[ExchangeRecorder] <= 5 + 1
                await until(lambda: not our_objects() - before)
            finally:
                gc.enable()

    asyncio.run(traffic())
