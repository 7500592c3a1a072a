"""Records the same work of eleven servers again and again, for the proof that `compare` reports no change of latency.

The machine may do anything else in the meantime: that is part of the proof.
"""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from tests.bench.build import tools
from tests.npm import installed

HERE: Final = Path(__file__).resolve().parent
PEERS: Final = HERE.parent / "peers"
REPEATS: Final = 12
"""How many recordings there are of each server and each number of rounds."""
ROUNDS: Final = (12, 30, 100)
"""How often each request is sent in a recording."""
_EVERYTHING: Final = "@modelcontextprotocol/server-everything"
_VERSION: Final = "2026.8.31"

Request: TypeAlias = tuple[str, dict[str, Any]]
"""Method and params."""
Work: TypeAlias = Sequence[Request]
"""The requests of a round."""


class Subject(NamedTuple):
    """A server and what it is to do."""

    name: str
    command: Sequence[str]
    work: Work
    is_http: bool = False


_LISTING: Final[Request] = ("tools/list", {})
_PING: Final[Request] = ("ping", {})
_READING: Final[Request] = ("resources/read", {"uri": "note://groceries"})


def _call(tool: str, **arguments: Any) -> Request:
    return "tools/call", {"name": tool, "arguments": arguments}


def subjects() -> list[Subject]:
    """Returns the servers; the C server needs a compiler, and two need Node."""
    everything = installed(_EVERYTHING, _VERSION) / "dist" / "index.js"
    own = [sys.executable, str(HERE / "latency_servers.py")]
    return [
        Subject(
            "sdk", [sys.executable, str(PEERS / "sdk_server.py")], [_call("count", steps=3), _call("fail"), _READING]
        ),
        Subject("library", [sys.executable, str(PEERS / "sdk_library.py")], [_call("show", text="x"), _LISTING, _PING]),
        Subject(
            "demo",
            [sys.executable, "-P", "-m", "mcpproxy.demo.server"],
            [_call("read_note", name="groceries"), _LISTING],
        ),
        Subject(
            "everything",
            ["node", str(everything), "stdio"],
            [_call("echo", message="x"), _call("get-sum", a=1, b=2), _LISTING, _PING],
        ),
        Subject("c", tools().server, [_call("work"), _LISTING, _PING]),
        *(Subject(name, [*own, name], [_call("work"), _PING]) for name in ("files", "sleepy", "pauses", "periodic")),
        Subject("node", ["node", str(HERE / "latency_server.cjs")], [_call("work"), _PING]),
        Subject("serve", [*own, "http"], [_call("work"), _PING], is_http=True),
    ]


def record_all(folder: Path) -> Iterator[tuple[str, int, list[Path]]]:
    """Yields the recordings of each server and number of rounds, in order; makes those that are missing."""
    for rounds in ROUNDS:
        for subject in subjects():
            paths = [folder / f"{subject.name}-{rounds}-{repeat}.mcpcap" for repeat in range(REPEATS)]
            for path in paths:
                if not path.exists():
                    _record(subject, rounds, path)
            yield subject.name, rounds, paths


def _record(subject: Subject, rounds: int, path: Path) -> None:
    environment = {**os.environ, "MCPPROXY_CAPTURES": str(path.parent)}
    part = path.with_suffix(".part.mcpcap")
    part.unlink(missing_ok=True)
    recorder = [sys.executable, "-m", "mcpproxy"]
    with contextlib.ExitStack() as stack:
        if subject.is_http:
            server = stack.enter_context(_started(subject.command, environment))
            upstream = _first_line(server)
            serve = [*recorder, "serve", "--capture", str(part), upstream]
            relay = stack.enter_context(_started(serve, environment))
            _over_http(_first_line(relay), subject.work, rounds)
            relay.terminate()
            relay.wait()
            server.terminate()
        else:
            run = [*recorder, "run", "--capture", str(part), "--", *subject.command]
            _over_stdio(stack.enter_context(_started(run, environment)), subject.work, rounds)
    part.rename(path)


@contextlib.contextmanager
def _started(command: Sequence[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    return _pipe(process.stdout).readline().decode().strip()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _messages(work: Work, rounds: int) -> Iterator[dict[str, Any]]:
    info = {"name": "latency", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    yield {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for number in range(rounds * len(work)):
        method, params = work[number % len(work)]
        yield {"jsonrpc": "2.0", "id": number + 1, "method": method, "params": params}


def _over_stdio(process: "subprocess.Popen[bytes]", work: Work, rounds: int) -> None:
    there, back = _pipe(process.stdin), _pipe(process.stdout)
    for message in _messages(work, rounds):
        there.write(json.dumps(message).encode() + b"\n")
        there.flush()
        while "id" in message and json.loads(back.readline()).get("id") != message["id"]:
            pass
    there.close()
    back.read()


def _over_http(url: str, work: Work, rounds: int) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for message in _messages(work, rounds):
        request = urllib.request.Request(url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request) as response:
            response.read()
