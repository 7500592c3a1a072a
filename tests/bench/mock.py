"""What `mcpproxy mock` costs: time from start to the first answer, and of each later answer compared with an echo in C.

    python -m tests.bench.mock [--frames N ...] [--calls N] [--rounds N] [--starts N] [--json]

For each size, a capture of distinct calls is written. `cold` starts have no cache of ours, `warm` ones have the one
that a whole earlier run left. The mock and the echo (`tests/bench/echo.c`) take turns, each in the same pipes to the
same client, so their difference is what the mock adds. It informs, and exits with 0.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from captures.envelope import judge
from captures.record import frame_members, members, seal, use_orjson
from tests.bench.build import tools

MS: Final = 1_000_000
MCPPROXY: Final = Path(sys.executable).with_name("mcpproxy")
INITIALIZE: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
ANSWER_BYTES: Final = 400


def request(number: int, method: str, params: object) -> bytes:
    """Returns a request as a line without its end."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def call(number: int, query: int) -> bytes:
    """Returns a tool call; each query was recorded once."""
    return request(number, "tools/call", {"name": "search", "arguments": {"query": f"q{query}"}})


def answer(number: int, query: int) -> bytes:
    """Returns its result, about as large as the echo's."""
    text = f"found {query} ".ljust(ANSWER_BYTES - 90, ".")
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, separators=(",", ":")).encode()


def write(path: Path, frames: int) -> int:
    """Write a capture of that many frames; returns the number of its calls."""
    use_orjson()
    calls = max(1, (frames - 3) // 2)
    header = {"format": 1, "capture": "0" * 31 + "1", "segment": 1, "transport": "stdio", "observed_start": True}
    seq = 0
    with path.open("wb") as file:

        def put(rec: str, middle: bytes) -> None:
            nonlocal seq
            file.write(seal(seq, seq * MS, rec, middle))
            seq += 1

        def frame(direction: str, raw: bytes) -> None:
            put("frame", frame_members(direction, raw, judge(raw, direction)))  # type: ignore[arg-type]

        put("header", members(**header, name="bench", wall_ns=1_795_000_000_000_000_000))
        frame("c2s", request(0, "initialize", INITIALIZE))
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }
        frame("s2c", json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode())
        frame("c2s", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for number in range(1, calls + 1):
            frame("c2s", call(number, number))
            frame("s2c", answer(number, number))
        put("close", members(ending="client", status=0))
    return calls


class Peer:
    """A started server, and the client's ends of its pipes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.began = time.perf_counter_ns()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._heard = b""

    def ask(self, line: bytes) -> bytes:
        """Write a request and wait for the next line."""
        os.write(self._input, line + b"\n")
        while b"\n" not in self._heard:
            chunk = os.read(self._output, 1 << 16)
            if not chunk:
                assert self.process.stderr is not None
                raise RuntimeError(f"it ended: {self.process.stderr.read()[-1_000:]!r}")
            self._heard += chunk
        found, _, self._heard = self._heard.partition(b"\n")
        return found

    @property
    def peak_bytes(self) -> int:
        """The most memory that it had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def end(self) -> str:
        """Close its input and wait; returns its stderr."""
        _, errors = self.process.communicate(timeout=600)
        return errors.decode(errors="replace")


def first_answer_ms(capture: Path, cache: Path) -> float:
    """Returns the milliseconds from starting the mock until it has answered `initialize`."""
    peer = Peer([str(MCPPROXY), "mock", str(capture)], {**os.environ, "XDG_CACHE_HOME": str(cache)})
    found = peer.ask(request(1, "initialize", INITIALIZE))
    spent = (time.perf_counter_ns() - peer.began) / 1e6
    assert b'"serverInfo"' in found, found
    peer.end()
    return spent


def percentile(values: list[int], share: float) -> float:
    """Returns a percentile in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] / 1e6


def measure(frames: int, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Returns the figures of one size."""
    capture = folder / f"{frames}.mcpcap"
    calls = write(capture, frames)
    figures: dict[str, float] = {"frames": frames, "MiB": round(capture.stat().st_size / (1 << 20), 1)}
    cold = [first_answer_ms(capture, folder / f"cold-{frames}-{number}") for number in range(options.starts)]
    figures["first answer, cold, ms"] = statistics.median(cold)
    cache = folder / f"warm-{frames}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}

    def started() -> Peer:
        peer = Peer([str(MCPPROXY), "mock", str(capture)], environment)
        peer.ask(request(0, "initialize", INITIALIZE))
        os.write(peer._input, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return peer

    peer = started()
    began = peer.began
    found = peer.ask(call(1, calls))
    figures["answer to the last call, cold, ms"] = (time.perf_counter_ns() - began) / 1e6
    assert b"found %d " % calls in found, found
    peer.end()
    figures["first answer, warm, ms"] = statistics.median(
        first_answer_ms(capture, cache) for _ in range(options.starts)
    )
    peer = started()
    found = peer.ask(call(1, calls))
    figures["answer to the last call, warm, ms"] = (time.perf_counter_ns() - peer.began) / 1e6
    assert b"found %d " % calls in found, found
    echo = Peer(tools().server, dict(os.environ))
    taken: dict[str, list[int]] = {"mock": [], "echo": []}
    number = 2
    for turn in range(options.rounds):
        for name, who in (("echo", echo), ("mock", peer)):
            for each in range(options.calls):
                line = call(number, (turn * options.calls + each) % calls + 1)
                number += 1
                at = time.perf_counter_ns()
                who.ask(line)
                taken[name].append(time.perf_counter_ns() - at)
    for share, word in ((0.5, "p50"), (0.99, "p99")):
        ours, theirs = percentile(taken["mock"], share), percentile(taken["echo"], share)
        figures[f"answer {word}, mock, ms"], figures[f"answer {word}, echo, ms"] = ours, theirs
        figures[f"answer {word}, above echo, ms"] = ours - theirs
    figures["peak memory, MiB"] = peer.peak_bytes / (1 << 20)
    peer.end()
    echo.end()
    return figures


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = []
        for frames in options.frames:
            found.append(measure(frames, options, Path(name)))
            print(f"{frames:,} frames measured, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    if options.json:
        print(json.dumps(found))
        return
    for what in found[0]:
        print(f"{what:36}", *(f"{figures[what]:12,.3f}" for figures in found))


if __name__ == "__main__":
    main()
