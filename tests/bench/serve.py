"""What `mcpproxy serve` costs compared with a direct run: a table with the budget of each figure.

    python -m tests.bench.serve [--json] [--rounds N] [--mitmproxy PROGRAM | --public [--streams N] [--seconds N]]

`--mitmproxy` adds mitmdump, in reverse mode, from its own environment. `--public` measures `serve --public` instead
(see `serve_public`). The peers share one processor; the proxy between them has the other. The frames in the capture are
counted against those that crossed. It informs, and never fails because of a figure.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.run import Cores

PEERS: Final = [sys.executable, "-I", str(Path(__file__).with_name("http_peers.py"))]
STREAMS: Final = 50
RATE: Final = 100
IDLE: Final = 400
POSTS: Final = 4_000
READY_S: Final = 20

Seen = dict[str, float]
Address = int | str
"""A port of loopback, or the path of a Unix socket."""
NOTHING: Final[Seen] = dict.fromkeys(("per_s", "p50_ns", "p99_ns", "frames"), math.nan)


class Subject(NamedTuple):
    """One way to the upstream."""

    name: str
    start: Callable[[Address, Path], "subprocess.Popen[bytes] | None"]
    """Starts the proxy, given the upstream's address; None for a direct connection."""
    port: Callable[[Address, "subprocess.Popen[bytes] | None"], Address]
    """Returns the address to connect to."""
    streams: bool = True
    """Whether it forwards a stream before the stream ends."""
    over_unix: bool = False
    """Whether the upstream listens on a Unix socket."""


class Row(NamedTuple):
    """One figure of each subject, and the value that is compared with a budget."""

    what: str
    unit: str
    figures: dict[str, float]
    value: float
    sign: str
    budget: float | None
    at_most: bool = True


def subjects(cores: Cores, mitmdump: str | None) -> list[Subject]:
    program = str(Path(sys.executable).with_name("mcpproxy"))
    found = [Subject("direct", lambda _port, _place: None, lambda port, _process: port)]

    def serve(port: Address, place: Path) -> "subprocess.Popen[bytes]":
        argv = [*cores.between, program, "serve", f"http://127.0.0.1:{port}/mcp", "--capture", f"{place}/"]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(place))

    def printed(_port: Address, process: "subprocess.Popen[bytes] | None") -> int:
        assert process is not None
        assert process.stdout is not None
        return int(process.stdout.readline().split(b":")[2].split(b"/")[0])

    found.append(Subject("serve", serve, printed))
    if mitmdump is not None:
        free = free_port()

        def mitm(port: Address, place: Path) -> "subprocess.Popen[bytes]":
            argv = [*cores.between, mitmdump, "-q", "-p", f"{free}", "--mode", f"reverse:http://127.0.0.1:{port}"]
            argv += ["-w", str(place / "flows"), "--set", f"confdir={place}"]
            return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        found.append(Subject("mitmproxy", mitm, lambda _port, _process: free, streams=False))
    return found


def environment(home: Path) -> dict[str, str]:
    """Returns our environment with another home, and without variables that move mcpproxy's folders."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MCPPROXY_", "PYTHON"))}
    return {**kept, "HOME": str(home)}


def free_port() -> int:
    """Returns a port of loopback on which no process listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Standing:
    """An upstream with the proxy in front of it, if there is one."""

    port: Address
    pid: int | None
    """The pid of the proxy."""
    recorded: int | None = None
    """Frames in its captures, once it has ended."""


@contextmanager
def standing(subject: Subject, cores: Cores) -> Iterator[Standing]:
    """Run both while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-") as name:
        place = Path(name)
        argv = [*cores.peers, *PEERS, "upstream", *([str(place / "upstream.sock")] if subject.over_unix else [])]
        upstream = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert upstream.stdin is not None
        assert upstream.stdout is not None
        printed = upstream.stdout.readline().decode().strip()
        port: Address = printed if subject.over_unix else int(printed)
        between = subject.start(port, place)
        try:
            reached = subject.port(port, between)
            _wait_for(reached)
            made = Standing(reached, between.pid if between is not None else None)
            yield made
        finally:
            if between is not None:
                between.send_signal(signal.SIGINT)
                between.wait(30)
            upstream.stdin.close()
            upstream.wait(30)
        if captures := list(place.rglob("*.mcpcap")):
            made.recorded = sum(map(_frames, captures))


def _frames(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(b'"rec":"frame"' in line for line in lines)


def _wait_for(port: Address) -> None:
    until = time.monotonic() + READY_S
    family, address = (socket.AF_INET, ("127.0.0.1", port)) if isinstance(port, int) else (socket.AF_UNIX, port)
    while True:
        try:
            with socket.socket(family) as probe:
                probe.connect(address)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def ask(cores: Cores, mode: str, *numbers: Address) -> Seen:
    """Run a client; returns what it measured."""
    done = subprocess.run([*cores.peers, *PEERS, mode, *map(str, numbers)], stdout=subprocess.PIPE, check=True)
    seen: Seen = json.loads(done.stdout)
    return seen


@contextmanager
def idling(cores: Cores, port: Address, streams: int) -> Iterator[None]:
    """Keep idle streams open while the block lasts."""
    argv = [*cores.peers, *PEERS, "idle", str(port), str(streams)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as client:
        assert client.stdout is not None
        if not client.stdout.readline():
            raise RuntimeError(f"{streams} idle streams could not be opened")
        yield


def idle_kib(cores: Cores, port: Address, pid: int | None) -> float:
    """Memory that an idle stream takes in the proxy, in KiB."""
    if pid is None:
        return math.nan
    before = rss_kib(pid)
    with idling(cores, port, IDLE):
        return (rss_kib(pid) - before) / IDLE


def rss_kib(pid: int) -> int:
    """Resident memory of a process, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"no memory of process {pid} to be seen")


def _cpu_s(pid: int | None) -> float:
    if pid is None:
        return math.nan
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(found: list[Subject], rounds: int, cores: Cores, say: Callable[[str], None]) -> dict[str, list[Seen]]:
    """All figures of all subjects, one entry per round."""
    samples: dict[str, list[Seen]] = {subject.name: [] for subject in found}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for subject in found:
            samples[subject.name].append(_once(subject, cores))
    return samples


def _once(subject: Subject, cores: Cores) -> Seen:
    with standing(subject, cores) as made:
        warm = ask(cores, "post", made.port, POSTS // 10, 1)
        one = ask(cores, "post", made.port, POSTS, 1)
        used = _cpu_s(made.pid)
        many = ask(cores, "post", made.port, 4 * POSTS, 32)
        cpu_us = (_cpu_s(made.pid) - used) / (4 * POSTS) * 1e6
        streams = dict(NOTHING)
        idle = math.nan
        if subject.streams:
            streams = ask(cores, "events", made.port, STREAMS, RATE, 3)
            idle = idle_kib(cores, made.port, made.pid)
    frames = warm["frames"] + one["frames"] + many["frames"]
    # If the client leaves a stream, more events may have crossed than it has read.
    if made.recorded is not None and made.recorded < frames + streams["frames"]:
        raise RuntimeError(f"serve recorded {made.recorded} frames of {frames + streams['frames']:.0f} that crossed")
    parts = {"one": one, "many": many, "events": streams}
    seen = {f"{kind}_{name}": value for kind, part in parts.items() for name, value in part.items()}
    return {**seen, "cpu_us": cpu_us, "idle_kib": idle}


def rows(samples: dict[str, list[Seen]]) -> list[Row]:
    """The table, with the budgets of `serve`."""

    def figures(name: str, scale: float) -> dict[str, float]:
        return {subject: statistics.median(seen[name] for seen in all_) / scale for subject, all_ in samples.items()}

    def added(what: str, name: str, budget: float | None) -> Row:
        found = figures(name, 1e6)
        return Row(what, "ms", found, found["serve"] - found["direct"], "ms added", budget)

    many, idle = figures("many_per_s", 1), figures("idle_kib", 1)
    return [
        added("POST, one in flight, p50", "one_p50_ns", 0.3),
        added("POST, one in flight, p99", "one_p99_ns", 1.0),
        added("POST, 32 in flight, p50", "many_p50_ns", None),
        Row("POST, 32 in flight", "/s", many, many["serve"], "/s", 5_000, at_most=False),
        Row("  processor for a POST", "µs", figures("cpu_us", 1), math.nan, "", None),
        added(f"event, {STREAMS} streams × {RATE}/s, p50", "events_p50_ns", None),
        added(f"event, {STREAMS} streams × {RATE}/s, p99", "events_p99_ns", None),
        Row("memory of an idle stream", "KiB", idle, idle["serve"] * 1.024, "kB", 8),
    ]


def table(found: list[Row]) -> str:
    """The rows as text."""
    names = list(found[0].figures)
    lines = [f"{'':<28}" + "".join(f"{name:>11}" for name in names) + f"{'':<24}budget"]
    for row in found:
        shown = "".join(f"{_number(row.figures[name]):>11}" for name in names)
        against = "" if math.isnan(row.value) else f"{_number(row.value)} {row.sign}"
        verdict = ""
        if row.budget is not None:
            is_met = row.value <= row.budget if row.at_most else row.value >= row.budget
            verdict = f"{'≤' if row.at_most else '≥'} {_number(row.budget)} {'met' if is_met else 'MISSED'}"
        lines.append(f"{row.what:<28}{shown} {row.unit:<5}{against:<18}{verdict}".rstrip())
    return "\n".join(lines)


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.serve", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object with every sample")
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds the medians are over")
    parser.add_argument("--mitmproxy", metavar="PROGRAM", default=shutil.which("mitmdump"), help="mitmdump")
    parser.add_argument("--public", action="store_true", help="measure serve --public, over TCP and over Unix sockets")
    parser.add_argument("--streams", type=int, default=5_000, help="with --public: how many streams are idle")
    parser.add_argument("--seconds", type=int, default=20, help="with --public: how long they are idle under load")
    options = parser.parse_args(argv)
    cores = Cores.apart()
    if options.public:
        from tests.bench import serve_public

        public = serve_public.measure(options.rounds, options.streams, options.seconds, cores, _say)
        print(json.dumps(public, indent=1) if options.json else serve_public.tables(public, options.streams))
        return 0
    samples = measure(subjects(cores, options.mitmproxy), options.rounds, cores, _say)
    found = rows(samples)
    whole = {"rows": [row._asdict() for row in found], "samples": samples}
    print(json.dumps(whole, indent=1, ensure_ascii=False) if options.json else table(found))
    return 0


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
