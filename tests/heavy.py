"""Captures that make mcpproxy use much memory: each shape has very many of one thing, all different.

`write` makes a capture of a shape and a size with the recorder's writer, so a recorder could have written every capture
that is measured. `peak` runs a command and returns its peak resident memory.

    python -m tests.heavy [--mib N] [--shape S]… [--command C]…

prints a table of both, in MiB.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from captures.envelope import judge
from captures.file import CaptureFile
from captures.limits import MAX_READER_JUDGED_BYTES
from captures.loss import PendingRecord
from captures.record import MAX_RAW_BYTES, frame_members, members, part_members, use_orjson
from captures.verdict import UNJUDGED, Direction
from captures.writer import Writer

MIB: Final = 1 << 20
ROOT: Final = Path(__file__).parents[1]

INITIALIZE: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}
SERVED: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "tasks": {}},
    "serverInfo": {"name": "demo", "version": "1"},
}
MODERN: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Entries = Iterator[PendingRecord]
Shape = Callable[[], Entries]


def said(direction: Direction, message: object, exchange: int | None = None) -> PendingRecord:
    """The record of a message."""
    raw = json.dumps(message, separators=(",", ":")).encode()
    unit: Any = "line" if exchange is None else "http_body"
    place: Any = {} if exchange is None else {"exchange": exchange, "unit": unit, "delim": b"", "conn": 1}
    return PendingRecord(
        "frame", frame_members(direction, raw, judge(raw, direction, unit), **place), direction, len(raw)
    )


def asks(number: object, method: str, exchange: Any = None, **params: Any) -> PendingRecord:
    """A request of the client."""
    return said("c2s", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, exchange)


def answers(number: object, result: dict[str, Any], exchange: int | None = None) -> PendingRecord:
    """A result of the server."""
    return said("s2c", {"jsonrpc": "2.0", "id": number, "result": result}, exchange)


def refuses(number: object, code: int, text: str) -> PendingRecord:
    """An error response of the server."""
    return said("s2c", {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}})


def tells(direction: Direction, method: str, **params: Any) -> PendingRecord:
    """A notification of either side."""
    return said(direction, {"jsonrpc": "2.0", "method": method, "params": params})


def handshake() -> Entries:
    """The handshake of 2025-11-25, on a pipe."""
    yield asks("i", "initialize", **INITIALIZE)
    yield answers("i", SERVED)
    yield tells("c2s", "notifications/initialized")


def posted(number: int, method: str, session: str | None, *, ended: bool = True, **params: Any) -> Entries:
    """A request over HTTP, with its response if it has one."""
    headers = [["content-type", "application/json"], ["accept", "application/json, text/event-stream"]]
    headers += [["mcp-session-id", session]] if session is not None else []
    request = {"method": "POST", "target": "/mcp", "headers": headers}
    at: dict[str, Any] = {"exchange": number, "conn": number}
    yield PendingRecord("exchange", members(**at, stage="request", peer="127.0.0.1:9", request=request))
    yield asks(number, method, number, **params)
    if ended:
        response = {"status": 200, "headers": [["content-type", "application/json"]]}
        yield PendingRecord("exchange", members(**at, stage="response", response=response))
        yield answers(number, {}, number)
        yield PendingRecord("exchange", members(**at, stage="end", ended_by="complete", response=response))


# ---- shapes


def unanswered() -> Entries:
    """Requests without a response, each with a different method."""
    yield from handshake()
    for n in count():
        yield asks(n, f"vendor/method-{n}")


def answered_methods() -> Entries:
    """Requests with a response, each with a different method."""
    yield from handshake()
    for n in count():
        yield asks(n, f"vendor/method-{n}")
        yield answers(n, {})


def unanswered_names() -> Entries:
    """Calls without a response, each of a different tool."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name=f"tool_{n}", arguments={"path": f"/home/{n}"})


def tools() -> Entries:
    """Calls with a response, each of a different tool."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name=f"tool_{n}", arguments={"path": f"/home/{n}"})
        yield answers(n, {"content": [{"type": "text", "text": f"{n}"}]})


def wide_params() -> Entries:
    """Requests without a response whose params take much more memory as values than as text."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={"of": [[] for _ in range(500)]})


def tokens() -> Entries:
    """Calls without a response, each with its own progress token, and progress notifications."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={}, _meta={"progressToken": f"token-{n}"})
        yield tells("s2c", "notifications/progress", progressToken=f"token-{n}", progress=1)


def long_ids() -> Entries:
    """Requests without a response, with ids of 200 bytes."""
    yield from handshake()
    for n in count():
        yield asks(f"{n}-".ljust(200, "x"), "tools/list")


def huge_ids() -> Entries:
    """Answered requests with ids of 20 KB."""
    yield from handshake()
    for n in count():
        yield asks(f"{n}-".ljust(20_000, "x"), "tools/list")
        yield answers(f"{n}-".ljust(20_000, "x"), {"tools": []})


def sessions() -> Entries:
    """Over HTTP, each request with a different session id."""
    for n in count(1):
        yield from posted(n, "tools/list", f"hmac:{n:032x}")


def open_sessions() -> Entries:
    """Over HTTP, each request with a different session id, and all of them unanswered."""
    for n in count(1):
        yield from posted(n, "tools/list", f"hmac:{n:032x}", ended=False)


def exchanges() -> Entries:
    """HTTP exchanges that never end."""
    for n in count(1):
        yield from posted(n, "tools/call", "hmac:1", ended=False, name=f"tool_{n}", arguments={})


def modern_sessions() -> Entries:
    """Over HTTP in the modern era, each request from a different client."""
    for n in count(1):
        client = {"io.modelcontextprotocol/clientInfo": {"name": f"client-{n}", "version": "1"}}
        yield from posted(n, "tools/list", None, _meta={**MODERN, **client})


def metas() -> Entries:
    """Requests, each with a different key in `_meta`."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/list", _meta={f"example.org/key-{n}": n})
        yield answers(n, {"tools": [], "_meta": {f"example.org/answer-{n}": n}})


def resources() -> Entries:
    """Reads of resources, each of a different resource."""
    yield from handshake()
    for n in count():
        yield asks(n, "resources/read", uri=f"file:///home/user/{n}.txt")
        yield answers(n, {"contents": [{"uri": f"file:///home/user/{n}.txt", "text": ""}]})


def subscriptions() -> Entries:
    """Subscriptions, each to a different resource, and updates of these."""
    yield from handshake()
    for n in count():
        yield asks(n, "resources/subscribe", uri=f"file:///home/user/{n}.txt")
        yield answers(n, {})
        yield tells("s2c", "notifications/resources/updated", uri=f"file:///home/user/{n}.txt")


def listens() -> Entries:
    """`subscriptions/listen` without end."""
    for n in count():
        wanted = {"resourceSubscriptions": [f"file:///home/user/{n}.txt"], "toolsListChanged": True}
        yield asks(n, "subscriptions/listen", notifications=wanted, _meta=MODERN)
        named = {"io.modelcontextprotocol/subscriptionId": n}
        yield tells("s2c", "notifications/subscriptions/acknowledged", notifications=wanted, _meta=named)


def tasks() -> Entries:
    """Tasks, each requested once and then polled."""
    yield from handshake()
    for n in count(0, 2):
        yield asks(n, "tools/call", name="dig", arguments={}, task={"ttl": 60_000})
        stamp = "2026-01-01T00:00:00Z"
        task = {"taskId": f"task-{n}", "status": "working", "createdAt": stamp, "lastUpdatedAt": stamp, "ttl": 60_000}
        yield answers(n, {"task": task})
        yield asks(n + 1, "tasks/get", taskId=f"task-{n}")
        yield answers(n + 1, task)


def interim() -> Entries:
    """Calls of the modern era with an interim result, each with a different state, which are never continued."""
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={"n": n}, _meta=MODERN)
        form = {"type": "object", "properties": {"who": {"type": "string"}}}
        asked = {"q": {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": form}}}
        result = {"resultType": "input_required", "inputRequests": asked, "requestState": f"state-{n}"}
        yield answers(n, result)


def definition(n: int, properties: int = 1) -> dict[str, Any]:
    """A tool."""
    inner = {f"argument_{i}_{n}": {"type": "string", "description": "what it is " * 4} for i in range(properties)}
    return {"name": f"tool_{n}", "description": f"does {n}", "inputSchema": {"type": "object", "properties": inner}}


def one_listing() -> Entries:
    """A listing of very many tools in pages of a thousand."""
    yield from handshake()
    for page in count():
        cursor = {} if not page else {"cursor": f"page-{page}"}
        yield asks(page, "tools/list", **cursor)
        listed = [definition(1000 * page + n) for n in range(1000)]
        yield answers(page, {"tools": listed, "nextCursor": f"page-{page + 1}"})


def changing_tools() -> Entries:
    """Tools with large schemas, declared again and again with changes."""
    yield from handshake()
    for n in count():
        listed = [{**definition(n, 200), "name": f"tool_{one}"} for one in range(10)]
        yield asks(n, "tools/list")
        yield answers(n, {"tools": listed})


def cancelled() -> Entries:
    """Calls that are cancelled, each with a different reason, and never answered."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={})
        yield tells("c2s", "notifications/cancelled", requestId=n, reason=f"{n} " + "no " * 300)


def findings() -> Entries:
    """Messages that break several rules each, each with different names."""
    yield from handshake()
    for n in count():
        yield said("c2s", {"jsonrpc": "1.0", "id": n, "method": f"rpc.m{n}", f"extra{n}": 1, "params": [n]})
        yield answers(f"x{n}", {"content": [{"type": f"odd{n}"}], "_meta": {f"mcp/{n}": 1}})
        yield tells("s2c", f"notifications/unknown-{n}", _meta={f"mcp.dev/{n}": n})


def wrong_calls() -> Entries:
    """Calls of a tool with arguments that do not match its schema, each in its own way."""
    yield from handshake()
    yield asks("l", "tools/list")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    yield answers("l", {"tools": [{"name": "dig", "inputSchema": schema}]})
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={f"b{n}": n, "a": n})
        yield answers(n, {"content": f"{n}"})


def errors() -> Entries:
    """Errors, each with a different code and text."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={})
        yield refuses(n, -40_000 - n, f"no {n} ".ljust(200, "!"))


def batches() -> Entries:
    """Batches of 10,000 unanswered requests."""
    yield from handshake()
    for first in count(0, 10_000):
        ids = range(first, first + 10_000)
        yield said("c2s", [{"jsonrpc": "2.0", "id": n, "method": "ping", "params": {}} for n in ids])


def in_parts(direction: Direction, pieces: list[bytes]) -> Entries:
    """A giant frame, in parts."""
    for number, raw in enumerate(pieces, 1):
        yield PendingRecord("part", part_members(direction, number, raw), direction, len(raw))
    parts = (len(pieces), sum(map(len, pieces)))
    yield PendingRecord("frame", frame_members(direction, b"", UNJUDGED, parts=parts), direction, 0)


def giants() -> Entries:
    """Frames of 64 MiB, in parts."""
    yield from handshake()
    for n in count():
        yield from in_parts(
            "s2c", [b'{"jsonrpc":"2.0","id":%d,"result":{"text":"' % n, *[b"x" * MAX_RAW_BYTES] * 63, b'"}}']
        )


def calls_with(values: bytes, size: int = MAX_READER_JUDGED_BYTES - MAX_RAW_BYTES) -> Entries:
    """Calls without a response whose arguments are a few bytes repeated, and responses of the same kind."""
    yield from handshake()
    piece = values * (MAX_RAW_BYTES // len(values))
    middle = [piece] * (size // len(piece))
    for n in count():
        yield from in_parts(
            "c2s", [b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"of":[' % n, *middle, b"0]}}"]
        )
        yield from in_parts("s2c", [b'{"jsonrpc":"2.0","id":%d,"result":{"of":[' % n, *middle, b"0]}}"])


def tiny_lists() -> Entries:
    """Frames of 15 MiB of empty lists."""
    yield from calls_with(b"[],")


def tiny_objects() -> Entries:
    """Frames of 15 MiB of objects with one member."""
    yield from calls_with(b'{"a":0},')


def many_values() -> Entries:
    """Frames with the largest number of values that is still parsed."""
    yield from calls_with(b'{"a":0},', 2_600_000)


def wide_text() -> Entries:
    """Frames of 15 MiB of text with one character that needs four bytes in memory, so every character takes four."""
    yield from calls_with(b'"\xf0\x9f\x98\x80' + b"x" * 1_000_000 + b'",')


def large_frames() -> Entries:
    """Requests of 900 KB of empty lists, without a response."""
    yield from handshake()
    for n in count():
        yield asks(n, "tools/call", name="dig", arguments={"of": [[] for _ in range(300_000)]})


def servers() -> Entries:
    """Repeated handshakes, each with a different server name."""
    for n in count():
        yield asks(n, "initialize", **INITIALIZE)
        yield answers(n, {**SERVED, "serverInfo": {"name": f"server-{n}", "version": f"{n}"}})
        yield tells("c2s", "notifications/initialized")


def repeats() -> Entries:
    """The same call with the same response, repeated, and between them calls that come twice."""
    yield from handshake()
    for n in count(0, 3):
        for more, arguments in enumerate(({"path": "/"}, {"path": f"/{n}"}, {"path": f"/{n}"})):
            yield asks(n + more, "tools/call", name="dig", arguments=arguments)
            yield answers(n + more, {"content": [{"type": "text", "text": "no"}]})


def stderr() -> Entries:
    """Lines of a server's log."""
    from captures.record import stderr_members

    yield from handshake()
    for n in count():
        yield PendingRecord("stderr", stderr_members(b"%d said something" % n))


def notifications() -> Entries:
    """Log notifications, each from a different logger."""
    yield from handshake()
    for n in count():
        yield tells("s2c", "notifications/message", level="info", logger=f"logger-{n}", data=f"line {n}")


SHAPES: Final[dict[str, Shape]] = {
    shape.__name__: shape
    for shape in (
        *(unanswered, answered_methods, unanswered_names, tools, wide_params, tokens, long_ids, huge_ids, sessions),
        *(
            open_sessions,
            exchanges,
            modern_sessions,
            metas,
            resources,
            subscriptions,
            listens,
            tasks,
            interim,
            one_listing,
        ),
        *(changing_tools, cancelled, findings, wrong_calls, errors, batches, giants, large_frames, servers, repeats),
        *(stderr, notifications, tiny_lists, tiny_objects, many_values, wide_text),
    )
}
_HTTP: Final = {"sessions", "open_sessions", "exchanges", "modern_sessions"}


def write(path: Path, shape: str, size: int) -> Path:
    """Write a capture of a shape, at least `size` bytes long, with the recorder's writer."""
    use_orjson()
    header = {
        "format": 1,
        "capture": "0" * 32,
        "transport": "http" if shape in _HTTP else "stdio",
        "name": shape,
        "observed_start": True,
        "wall_ns": 1_795_000_000_000_000_000,
    }
    file = CaptureFile(str(path), segment_bytes=1 << 40, ring_bytes=1 << 41)
    writer = Writer(file, lambda segment: members(**header, segment=segment), print, fsync="never")
    waiting: list[PendingRecord] = []
    bytes_ = 0
    for entry in SHAPES[shape]():
        waiting.append(entry)
        bytes_ += len(entry.middle)
        if len(waiting) >= 500 or bytes_ > MIB:
            writer.append(*waiting)
            waiting, bytes_ = [], 0
            if file.size >= size:
                break
    assert writer.close(lambda: PendingRecord("close", members(ending="client", status=0)), wait_s=60)
    return path


# ---- measuring


class Run(NamedTuple):
    """The cost of a command."""

    code: int
    peak: int
    """Peak resident memory in bytes."""
    seconds: float
    """Processor time."""


_STUB: Final = """
import os, resource, sys
pid = os.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(3, b"%d %d %f" % (code, used.ru_maxrss, used.ru_utime + used.ru_stime))
"""
"""A small process in between, because a child's peak includes the time before it executes another program."""


def peak(command: list[str], home: Path, timeout_s: float = 900) -> Run:
    """Run a command to its end, and measure it with the children that it waits for."""
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    stub = [sys.executable, "-I", "-S", "-c", f"import os; os.dup2({theirs}, 3)\n{_STUB}", *command]
    with open(home / "stdout", "wb") as out, open(home / "stderr", "wb") as err:
        subprocess.run(
            stub, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, pass_fds=(theirs,),
            timeout=timeout_s, check=False,
        )  # fmt: skip
    os.close(theirs)
    code, kib, seconds = os.read(ours, 100).split()
    os.close(ours)
    return Run(int(code), int(kib) * 1024, float(seconds))


COMMANDS: Final[dict[str, list[str]]] = {
    "show": ["show"],
    "show --json": ["show", "--json"],
    "show -f": ["show", "-f"],
    "check": ["check"],
    "check --json": ["check", "--json"],
    "sarif": ["check", "--format", "sarif"],
    "junit": ["check", "--format", "junit"],
    "stats": ["stats"],
    "query": ["query", "select count(*) from frames"],
    "ls": ["ls"],
    "info": ["info"],
    "verify": ["verify"],
    "tui": ["tui"],
}
LOADED_S: Final = 1800
"""How long the screen may take for a capture."""


def screen_peak(path: Path, home: Path) -> Run:
    """Open a capture in `tui`, and wait until it is shown and checked; returns the cost of the larger process."""
    from tests.mcpproxy.tui.terminals import children, terminal  # needs pyte

    end = time.monotonic() + LOADED_S
    with terminal(home, str(path), size=(160, 40)) as shown:
        shown.until(lambda: "frame" in shown.text())
        shown.press("F")

        def wait_for(condition: Callable[[], object]) -> None:
            while not condition():
                if time.monotonic() > end or shown.process.poll() is not None:
                    raise subprocess.TimeoutExpired("tui", LOADED_S)
                shown.listen(0.5)
                shown.heard = b""

        wait_for(lambda: re.search(r"all \d[\d,]* records? checked", shown.text()))
        shown.press("\x1b")
        wait_for(lambda: "frame" in shown.text() and "analysed" not in shown.text())
        return Run(0, max(map(_highest, (shown.process.pid, *children(shown.process.pid)))), 0)


def _highest(pid: int) -> int:
    """The peak resident memory of a running process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 0 if found is None else int(found[1]) * 1024


def command(name: str, path: Path) -> list[str]:
    """The command line that runs a command on a capture."""
    words = COMMANDS[name]
    at = 2 if words[0] == "query" else len(words)
    return [sys.executable, "-P", "-m", "mcpproxy", *words[:at], str(path.parent if name == "ls" else path)]


def peak_of(name: str, path: Path, home: Path) -> Run:
    """Run a command on a capture, and measure it."""
    return screen_peak(path, home) if name == "tui" else peak(command(name, path), home)


def main(argv: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.heavy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--command", action="append", choices=COMMANDS)
    options = parser.parse_args(argv)
    names = options.command or list(COMMANDS)
    print(f"{'MiB resident at most':22}", *[f"{name:>12}" for name in names], flush=True)
    for shape in options.shape or SHAPES:
        with tempfile.TemporaryDirectory() as place:
            path = write(Path(place, "heavy.mcpcap"), shape, options.mib * MIB)
            print(f"{shape:22}", end="", flush=True)
            for name in names:
                try:
                    run = peak_of(name, path, Path(place))
                    print(f" {run.peak / MIB:8.0f}", f"{run.seconds:2.0f}s", end="", flush=True)
                except subprocess.TimeoutExpired:
                    print(f" {'timeout':>12}", end="", flush=True)
            print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
