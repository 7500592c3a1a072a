"""Small MCP servers whose response times have the shapes that a comparison of latencies must not mistake for a change.

    latency_servers.py files|sleepy|pauses|periodic|http

| server | each `tools/call` |
|---|---|
| `files` | writes a file of 64 KiB, reads it back and hashes it |
| `sleepy` | sleeps for a log-normal time with a median of 5 ms and a heavy tail |
| `pauses` | works for a moment; every 50 calls, five calls in a row take 20 ms longer, as in a garbage collection |
| `periodic` | works for a moment; every 10th call takes 15 ms longer |
| `http` | as `files`, but over HTTP on a free loopback port, which it prints |

The random numbers have no fixed seed: each process has its own times, as real servers do.
"""

import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_SIZE: Final = 65_536
_MEDIAN_S: Final = 0.005
_PAUSE_S: Final = 0.02
_SLOW_S: Final = 0.015


def _use_files(_number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(os.urandom(_SIZE))
        hashlib.sha256(path.read_bytes()).hexdigest()


def _sleep(_number: int) -> None:
    time.sleep(min(0.2, random.lognormvariate(0, 0.8) * _MEDIAN_S))


def _pause(number: int) -> None:
    sum(range(2_000))
    if number % 50 < 5:
        time.sleep(_PAUSE_S)


def _repeat(number: int) -> None:
    sum(range(2_000))
    if number % 10 == 0:
        time.sleep(_SLOW_S)


TOOLS: Final[dict[str, Callable[[int], None]]] = {
    "files": _use_files,
    "sleepy": _sleep,
    "pauses": _pause,
    "periodic": _repeat,
    "http": _use_files,
}


class Server:
    """Answers requests, with one tool that takes its time."""

    def __init__(self, kind: str) -> None:
        """Begin without calls."""
        self._kind, self._tool, self._calls = kind, TOOLS[kind], 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the response, or None for a notification."""
        if "id" not in request:
            return None
        result: dict[str, Any] = {}
        match request["method"]:
            case "initialize":
                info = {"name": f"latency-{self._kind}", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self._calls += 1
                self._tool(self._calls)
                result = {"content": [{"type": "text", "text": "done"}]}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def _serve_http(server: Server) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            response = server.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = b"" if response is None else json.dumps(response).encode()
            self.send_response(202 if response is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.server_port}/mcp\n")
        sys.stdout.flush()
        listener.serve_forever()


def main(kind: str) -> None:
    """Serve until the end of stdin, or for ever over HTTP."""
    server = Server(kind)
    if kind == "http":
        _serve_http(server)
    for line in sys.stdin.buffer:
        if (response := server.answer(json.loads(line))) is not None:
            sys.stdout.buffer.write(json.dumps(response).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
