"""The two ends of the benchmark of `serve`: an HTTP server and an HTTP client that cost little themselves.

    http_peers.py upstream                    prints its port; ends when its stdin does
    http_peers.py post PORT COUNT CONNS       COUNT POSTs over CONNS connections, one in flight on each
    http_peers.py events PORT STREAMS RATE S  STREAMS event streams, RATE events a second on each, for S seconds
    http_peers.py idle PORT STREAMS           opens event streams that say nothing, prints a line, waits for stdin's end

Each client prints one line of JSON. Times are of the monotonic clock, which both ends share.
"""

import asyncio
import json
import sys
import time

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


class Upstream(asyncio.Protocol):
    """Answers each POST at once; a GET of /RATE is a stream of so many events a second."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.waiting = b""

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        if self.waiting.startswith(b"GET "):
            rate = int(self.waiting.split(b" ", 2)[1][1:])
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


async def upstream() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


async def post(port: int, count: int, connections: int) -> dict[str, float]:
    """Closed loop: each connection sends the next request when it has its answer."""
    took: list[int] = []
    left = count

    async def one() -> None:
        nonlocal left
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left > 0:
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


async def events(port: int, streams: int, rate: int, seconds: float) -> dict[str, float]:
    took: list[int] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /%d HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n" % rate)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            line = await reader.readline()
            if line.startswith(b"data: "):
                took.append(time.monotonic_ns() - json.loads(line[6:])["params"]["data"])
        writer.close()

    await asyncio.gather(*(one() for _ in range(streams)))
    return {"per_s": len(took) / seconds, **percentiles(took), "frames": len(took)}


async def idle(port: int, streams: int) -> None:
    opened = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        opened.append((reader, writer))
    print(json.dumps({"streams": streams}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def percentiles(took: list[int]) -> dict[str, float]:
    took.sort()
    return {"p50_ns": took[len(took) // 2], "p99_ns": took[len(took) * 99 // 100]}


def main(argv: list[str]) -> None:
    mode, *numbers = argv
    if mode == "upstream":
        asyncio.run(upstream())
    elif mode == "idle":
        asyncio.run(idle(*map(int, numbers)))
    elif mode == "post":
        print(json.dumps(asyncio.run(post(*map(int, numbers)))))
    else:
        print(json.dumps(asyncio.run(events(*map(int, numbers)))))


if __name__ == "__main__":
    main(sys.argv[1:])
