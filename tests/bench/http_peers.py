"""The two ends of the benchmark of `serve`: an HTTP server and an HTTP client that cost little themselves.

    http_peers.py upstream [PATH]             prints its port, or PATH for a Unix socket; ends when its stdin does
    http_peers.py post PORT COUNT CONNS       COUNT POSTs over CONNS connections, one in flight on each
    http_peers.py events PORT STREAMS RATE S  STREAMS event streams, RATE events a second on each, for S seconds
    http_peers.py idle PORT STREAMS           opens event streams that say nothing, prints a line, waits for stdin's end
    http_peers.py steady PORT SECONDS CONNS   POSTs over CONNS connections for SECONDS, one in flight on each
    http_peers.py paced PORT SECONDS CONNS R  R POSTs a second over CONNS connections, each at a fixed time
    http_peers.py flood PORT KIND             one connection with a flood named in FLOODS, until stdin's end

PORT can also be the path of a Unix socket. Each client prints one line of JSON. Times are those of the monotonic clock,
which both ends share.
"""

import asyncio
import gzip
import json
import os
import resource
import sys
import threading
import time
from typing import NamedTuple

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}' % (
    b"x" * 300
)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}' % (b"y" * 330)
REQUEST = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nUser-Agent: bench\r\nMcp-Protocol-Version: 2025-11-25\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nServer: bench\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ZIPPED = STREAM.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
UPLOAD = (
    b"POST /flood HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


QUICK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Flood(NamedTuple):
    """What one side sends: a head, then one unit again and again."""

    head: bytes
    unit: bytes
    down: bool = False
    """Whether the server sends it."""


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def _gzip_units(content: bytes) -> bytes:
    """A gzip member in a chunk, which decodes to the decoder's limit."""
    return _chunk(gzip.compress(content, 9))


_FIELDS = b"".join(b"X%d: y\r\n" % number for number in range(90))
_QUICK = b"GET /quick HTTP/1.1\r\nHost: 127.0.0.1\r\n"
FLOODS = {
    "one-byte chunks up": Flood(UPLOAD, b"1\r\nx\r\n"),
    "chunk extensions up": Flood(UPLOAD, b"2;a\r\nxx\r\n"),
    "pipelined requests": Flood(b"", _QUICK + b"\r\n"),
    "many headers": Flood(b"", _QUICK + _FIELDS + b"\r\n"),
    "many trailers": Flood(b"", UPLOAD.replace(b"/flood", b"/quick") + b"0\r\n" + _FIELDS + b"\r\n"),
    "one-byte chunks down": Flood(CHUNKED, b"1\r\nx\r\n", down=True),
    "events in one-byte chunks": Flood(
        STREAM, b"".join(map(_chunk, (b"d", b"a", b"t", b"a", b":", b"\n", b"\n"))), down=True
    ),
    "tiny events": Flood(STREAM, _chunk(b"data:x\n\n" * 8000), down=True),
    "messages as events": Flood(STREAM, _chunk(b'data:{"jsonrpc":"2.0","method":"m"}\n\n' * 1000), down=True),
    "one event of many lines": Flood(STREAM, _chunk(b"data:x\n" * 8000), down=True),
    "comments": Flood(STREAM, _chunk(b":\n" * 30000), down=True),
    "compressed events": Flood(ZIPPED, _gzip_units(b"data:x\n\n" * 8000), down=True),
    "interim answers": Flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n", down=True),
}
"""The worst of each kind, by its name."""
FLOOD_BYTES = 256 << 10


class Upstream(asyncio.Protocol):
    """Answers each POST at once; a GET of /mcp?rate=RATE gets a stream of RATE events a second."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.waiting = b""
        self.discards = self.is_quick = self.is_full = False
        self.flood: Flood | None = None

    def data_received(self, data: bytes) -> None:
        if self.discards:
            return
        self.waiting += data
        if self.waiting.startswith(b"POST /flood "):
            self.discards = True
            return
        if self.quick(data):
            return
        if self.waiting.startswith(b"GET /flood/"):
            self.discards = True
            kind = self.waiting.split(b" ", 2)[1].removeprefix(b"/flood/").replace(b"_", b" ").decode()
            self.flood = FLOODS[kind]
            self.transport.write(self.flood.head)
            self.resume_writing()
            return
        if self.waiting.startswith(b"GET "):
            rate = int(self.waiting.split(b" ", 2)[1].removeprefix(b"/mcp?rate="))
            self.waiting = b""
            self.transport.write(STREAM)
            if rate:
                self.task = asyncio.get_running_loop().create_task(self.events(rate))
            return
        while self.waiting.startswith(b"POST ") and (end := self.waiting.find(b"\r\n\r\n")) >= 0:
            size = end + 4 + len(BODY)
            if len(self.waiting) < size:
                return
            self.waiting = self.waiting[size:]
            self.transport.write(RESPONSE)

    def quick(self, data: bytes) -> bool:
        """Answer a flood of requests for `/quick` by counting their request lines."""
        if not self.is_quick:
            self.is_quick = self.waiting.split(b" ", 2)[1:2] == [b"/quick"]
            self.waiting = b"" if self.is_quick else self.waiting
        if self.is_quick:
            # A request line cut between two reads is left out: the flood does not count its answers.
            self.transport.write(QUICK * data.count(b" /quick HTTP"))
        return self.is_quick

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self.flood is not None:
            unit = self.flood.unit * max(1, FLOOD_BYTES // len(self.flood.unit))
            while not self.is_full and not self.transport.is_closing():
                self.transport.write(unit)

    async def events(self, rate: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self.transport.is_closing():
            text = (
                b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}\n\n'
                % time.monotonic_ns()
            )
            self.transport.write(b"%x\r\n%b\r\n" % (len(text), text))
            due += 1 / rate
            await asyncio.sleep(max(0, due - loop.time()))


async def upstream(path: str = "") -> None:
    loop = asyncio.get_running_loop()
    if path:
        server: asyncio.Server = await loop.create_unix_server(Upstream, path, backlog=1024)
    else:
        server = await loop.create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(path or server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


async def connect(port: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of loopback, or to the path of a Unix socket."""
    if port.isdigit():
        return await asyncio.open_connection("127.0.0.1", int(port))
    return await asyncio.open_unix_connection(port)


async def post(port: str, count: float, connections: int, seconds: float = float("inf")) -> dict[str, float]:
    """Closed loop: each connection sends the next request when it has its response."""
    took: list[int] = []
    left = count
    until = time.monotonic() + seconds

    async def one() -> None:
        nonlocal left
        reader, writer = await connect(port)
        while left > 0 and time.monotonic() < until:
            left -= 1
            began = time.perf_counter_ns()
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(len(ANSWER))
            took.append(time.perf_counter_ns() - began)
        writer.close()

    began = time.perf_counter_ns()
    await asyncio.gather(*(one() for _ in range(connections)))
    seconds = (time.perf_counter_ns() - began) / 1e9
    return {"per_s": len(took) / seconds, **percentiles(took), "frames": 2 * len(took)}


async def paced(port: str, seconds: int, connections: int, rate: int) -> dict[str, float]:
    """Open loop: each request is due at a fixed time, and a wait for an earlier response counts as its own."""
    took: list[int] = []
    began = time.perf_counter_ns() + 100_000_000

    async def one(number: int) -> None:
        reader, writer = await connect(port)
        for turn in range(number, seconds * rate, connections):
            due = began + turn * 1_000_000_000 // rate
            await asyncio.sleep(max(0, due - time.perf_counter_ns()) / 1e9)
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(len(ANSWER))
            took.append(time.perf_counter_ns() - due)
        writer.close()

    await asyncio.gather(*map(one, range(connections)))
    elapsed = (time.perf_counter_ns() - began) / 1e9
    return {"per_s": len(took) / elapsed, **percentiles(took), "frames": 2 * len(took)}


async def events(port: str, streams: int, rate: int, seconds: float) -> dict[str, float]:
    took: list[int] = []

    async def one() -> None:
        reader, writer = await connect(port)
        writer.write(b"GET /mcp?rate=%d HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n" % rate)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            line = await reader.readline()
            if line.startswith(b"data: "):
                took.append(time.monotonic_ns() - json.loads(line[6:])["params"]["data"])
        writer.close()

    await asyncio.gather(*(one() for _ in range(streams)))
    return {"per_s": len(took) / seconds, **percentiles(took), "frames": len(took)}


async def idle(port: str, streams: int) -> None:
    opened = []
    for _ in range(streams):
        reader, writer = await connect(port)
        writer.write(b"GET /mcp?rate=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        opened.append((reader, writer))
    print(json.dumps({"streams": streams}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def flood(port: str, kind: str) -> None:
    """Send or fetch a flood until stdin ends; prints a line when it has begun."""
    sent = FLOODS[kind]
    reader, writer = await connect(port)
    if sent.down:
        writer.write(b"GET /flood/%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % kind.replace(" ", "_").encode())
    else:
        writer.write(sent.head)

    async def send() -> None:
        unit = sent.unit * max(1, FLOOD_BYTES // len(sent.unit))
        while not sent.down:
            writer.write(unit)
            await writer.drain()

    async def read() -> None:
        crossed = 0
        while data := await reader.read(FLOOD_BYTES):
            crossed += len(data)

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(read())]
    print(json.dumps({"kind": kind}), flush=True)
    # Not a thread of the executor, as asyncio would wait for it when this side ends first.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    sys.exit(f"the flood {kind!r} ended: {[task.exception() for task in tasks if task.done()]}")


def percentiles(took: list[int]) -> dict[str, float]:
    took.sort()
    shares = {"p50_ns": 50, "p95_ns": 95, "p99_ns": 99, "max_ns": 100}
    return {name: took[min(len(took) - 1, len(took) * share // 100)] for name, share in shares.items()}


def main(argv: list[str]) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    mode, *words = argv
    if mode == "upstream":
        asyncio.run(upstream(*words))
        return
    port, *rest = words
    if mode == "flood":
        asyncio.run(flood(port, rest[0]))
        return
    numbers = [int(word) for word in rest]
    if mode == "idle":
        asyncio.run(idle(port, *numbers))
    elif mode == "steady":
        seconds, connections = numbers
        print(json.dumps(asyncio.run(post(port, float("inf"), connections, seconds))))
    elif mode == "post":
        print(json.dumps(asyncio.run(post(port, *numbers))))
    elif mode == "paced":
        print(json.dumps(asyncio.run(paced(port, *numbers))))
    else:
        print(json.dumps(asyncio.run(events(port, *numbers))))


if __name__ == "__main__":
    main(sys.argv[1:])
