"""Captures shared by the tests of exports: real recordings over stdio and HTTP, and conversations of the corpus."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb

from captures.file import CaptureFile
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import ROOT, Place
from tests.http_harness import STREAM, Upstream, Wire, chunked, post, serving
from tests.mcpproxy.cli.typed import mcpproxy

TRACES = sorted((ROOT / "tests/corpus/traces").glob("*.ndjson"))
SECRETS = (b"hunter2-planted", b"sk-planted-0123456789abcdef", b"s3cret-planted-query", b"cookie-planted-99")
"""Credentials in headers and queries of the HTTP recording; the recorder redacts them."""


def demo(folder: Path) -> Path:
    """Record the bundled server over stdio."""
    done = mcpproxy("demo", "--capture", folder)
    assert done.returncode == 0, done.stderr.decode()
    (capture,) = folder.rglob("*.mcpcap")
    return capture


def over_http(place: Place) -> Path:
    """A conversation recorded over HTTP: a handshake in JSON, a call on a stream, a body that is not stored."""
    with Upstream(_server) as upstream:
        with serving(place, upstream.url + "?key=s3cret-planted-query") as served:
            with served.client() as client:
                for request in _requests():
                    client.say(request)
                    head = client.head()
                    if b"chunked" in head.lower():
                        client.through(b"0\r\n\r\n")
                    else:
                        client.hear(int(head.lower().partition(b"content-length:")[2].split()[0]))
            served.ended(4)
            served.stop()
        return served.capture


def _requests() -> Iterator[bytes]:
    fields = (
        b"Authorization: Bearer sk-planted-0123456789abcdef",
        b"X-Api-Key: hunter2-planted",
        b"Cookie: sid=cookie-planted-99",
        b"Accept: application/json, text/event-stream",
        b"Mcp-Session-Id: hunter2-planted",
    )
    client = {"name": "pen", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    yield post(_message(1, "initialize", opening), *fields)
    yield post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', *fields)
    call = {"name": "add", "arguments": {"a": 1}, "_meta": {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}}
    yield post(_message(2, "tools/call", call), *fields)
    yield b"GET /picture?token=s3cret-planted-query HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _server(wire: Wire) -> None:
    while request := wire.request():
        if b'"initialize"' in request:
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ink", "version": "2"},
            }
            wire.say(_answer(200, b"application/json", _result(1, result), b"Mcp-Session-Id: hunter2-planted"))
        elif b'"tools/call"' in request:
            progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}'
            asked = b'{"jsonrpc":"2.0","id":"s1","method":"roots/list"}'
            answer = _result(2, {"content": [{"type": "text", "text": "two\nlines ü"}]})
            events = [b"id: %d\ndata: %b\n\n" % pair for pair in enumerate((progress, asked, answer), 7)]
            wire.say(STREAM + chunked(*events))
        elif request.startswith(b"POST"):
            wire.say(_answer(202, b"text/plain", b""))
        else:
            wire.say(_answer(200, b"image/png", b"\x89PNG no picture"))


def _answer(status: int, kind: bytes, body: bytes, *fields: bytes) -> bytes:
    lines = (b"HTTP/1.1 %d OK" % status, b"Content-Type: " + kind, *fields, b"Content-Length: %d" % len(body))
    return b"\r\n".join((*lines, b"", body))


def _message(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def _result(number: int, result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


@cache
def _conversations(every: int) -> list[tuple[str, bytes]]:
    found = []
    for trace in TRACES:
        for number, case in enumerate(cases(trace.read_bytes().splitlines())):
            if isinstance(case, Case) and number % every == 0:
                found.append((f"{trace.stem}-{number}.mcpcap", b"".join(line for _, line in case.records())))
    return found


def corpus(folder: Path, every: int) -> list[Path]:
    """Write captures of one in `every` conversations of the corpus; returns their paths."""
    folder.mkdir()
    for name, data in _conversations(every):
        (folder / name).write_bytes(data)
    return [folder / name for name, _ in _conversations(every)]


_EXPORTED: dict[tuple[Any, ...], Path] = {}
"""Paths and sizes of captures → the database with their tables."""


def counted(*captures: Path, folder: Path, where: str = "true", table: str = "exchanges") -> int:
    """Returns the number of rows of a table, which DuckDB itself reads in a database that `export` has written.

    The database is written below the folder, unless it was already written for the same captures.
    """
    holds = tuple((path, path.stat().st_size) for path in captures)
    if holds not in _EXPORTED:
        own = folder / f"{len(_EXPORTED)}"  # a folder may get the tables of several sets of captures
        done = mcpproxy("export", "--format", "duckdb", "-o", own, *captures)
        assert done.returncode == 0, done.stderr.decode()
        _EXPORTED[holds] = own / "captures.duckdb"
    with duckdb.connect(str(_EXPORTED[holds]), read_only=True) as connection:
        ((count,),) = connection.execute(f"select count(*) from {table} where {where}").fetchall()
    return int(count)


BY_LATE_RESPONSE: Final = (
    "has:error",
    "latency>900ms",
    "kind:error",
    "code:-32603",
    "frame:6",
    '"too late"',
)
"""Filters that select the late response of `late`, and nothing else."""


def never_answered(path: Path) -> Path:
    """A call without a response: its server ends after 600 ms, long before the capture does."""
    one = CaptureWriter(path, "files", 1)
    one.handshake()
    one.call(100, 2, "hung")
    one.record(700, "process", event="ended", status=0)
    return one.close(9000)


@contextmanager
def being_recorded(path: Path) -> Iterator[Path]:
    """A capture that began a minute ago, whose last record is a call after 100 ms."""
    one = CaptureWriter(path.with_name("whole"), "files", 1, time.time_ns() - 60_000_000_000)
    one.handshake()
    one.call(100, 2, "hung")
    whole = one.close()
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.unlink()
    growing = CaptureFile(path)
    try:
        growing.append(b"".join(lines[:-1]))
        yield path
    finally:
        growing.close()


def late(path: Path) -> Path:
    """A call that times out, and gets an error response nevertheless."""
    one = CaptureWriter(path, "files", 1)
    one.handshake()
    one.call(100, 2, "late")
    one.say(503, "c2s", method="notifications/cancelled", params={"requestId": 2, "reason": "Request timed out"})
    one.refuse(1108, 2, -32603, "too late")
    return one.close()
