"""What `mcpproxy serve --public` costs compared with a direct run, over TCP and from Unix socket to Unix socket.

    python -m tests.bench.serve --public [--rounds N] [--streams N] [--seconds N] [--json]

After round trips, many clients keep idle streams open while others POST at a fixed rate. Each POST is due at a fixed
time, and its latency counts from then. The memory of an idle stream is what the recorder takes at the end of this load
in addition to what it took after the same load without the streams.
"""

import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.run import Cores
from tests.bench.serve import (
    POSTS,
    Address,
    Row,
    Seen,
    Subject,
    ask,
    environment,
    free_port,
    idling,
    rss_kib,
    standing,
    table,
)

RATE: Final = 2_000
CONNECTIONS: Final = 64
WAYS: Final = ("TCP", "Unix")
Samples = dict[str, dict[str, list[Seen]]]
"""Way → subject → a sample for each round."""


def subjects(way: str, cores: Cores) -> list[Subject]:
    """Direct and recorded, over TCP or Unix sockets."""
    over_unix = way == "Unix"
    program = str(Path(sys.executable).with_name("mcpproxy"))

    def start(upstream: Address, place: Path) -> "subprocess.Popen[bytes]":
        url = f"unix:{upstream}" if over_unix else f"http://127.0.0.1:{upstream}/mcp"
        listen = f"unix:{place}/front.sock" if over_unix else str(free_port())
        options = ["--public", "https://mcp.example.org/mcp", "--listen", listen, "--capture", f"{place}/"]
        argv = [*cores.between, program, "serve", *options, url]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(place))

    def printed(_upstream: Address, process: "subprocess.Popen[bytes] | None") -> Address:
        assert process is not None
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        return address.removeprefix("unix:") if over_unix else int(address.split(":")[2].partition("/")[0])

    return [
        Subject("direct", lambda _upstream, _place: None, lambda upstream, _process: upstream, over_unix=over_unix),
        Subject("--public", start, printed, over_unix=over_unix),
    ]


def measure(rounds: int, streams: int, seconds: int, cores: Cores, say: Callable[[str], None]) -> Samples:
    """All figures of all subjects."""
    samples: Samples = {way: {"direct": [], "--public": []} for way in WAYS}
    for number in range(rounds):
        for way in WAYS:
            say(f"round {number + 1} of {rounds}, {way}")
            for subject in subjects(way, cores):
                samples[way][subject.name].append(_once(subject, streams, seconds, cores))
    return samples


def _once(subject: Subject, streams: int, seconds: int, cores: Cores) -> Seen:
    with standing(subject, cores) as made:
        parts = {"warm": ask(cores, "post", made.port, POSTS // 10, 1)}
        parts["one"] = ask(cores, "post", made.port, POSTS, 1)
        parts["many"] = ask(cores, "post", made.port, 4 * POSTS, 32)
        parts["paced"] = ask(cores, "paced", made.port, seconds, CONNECTIONS, RATE)
        before = math.nan if made.pid is None else rss_kib(made.pid)
        with idling(cores, made.port, streams):
            parts["beside"] = ask(cores, "paced", made.port, seconds, CONNECTIONS, RATE)
            after = math.nan if made.pid is None else rss_kib(made.pid)
    crossed = sum(part["frames"] for part in parts.values())
    if made.recorded is not None and made.recorded != crossed:
        raise RuntimeError(f"serve recorded {made.recorded} frames of {crossed:.0f} that crossed")
    seen = {f"{kind}_{name}": value for kind, part in parts.items() for name, value in part.items()}
    return {**seen, "idle_kib": (after - before) / streams}


def rows(samples: dict[str, list[Seen]], streams: int) -> list[Row]:
    """The table of one way, with the budgets of `serve`."""

    def figures(name: str, scale: float) -> dict[str, float]:
        return {subject: statistics.median(seen[name] for seen in all_) / scale for subject, all_ in samples.items()}

    def added(what: str, name: str, budget: float | None) -> Row:
        found = figures(name, 1e6)
        return Row(what, "ms", found, found["--public"] - found["direct"], "ms added", budget)

    many, beside, idle = figures("many_per_s", 1), figures("beside_per_s", 1), figures("idle_kib", 1)
    return [
        added("POST, one in flight, p50", "one_p50_ns", 0.3),
        added("POST, one in flight, p99", "one_p99_ns", 1.0),
        Row("POST, 32 in flight", "/s", many, many["--public"], "/s", 5_000, at_most=False),
        added(f"POST, {RATE:,}/s, p99", "paced_p99_ns", None),
        Row(f"  with {streams:,} idle streams", "/s", beside, beside["--public"], "/s", 0.99 * RATE, at_most=False),
        added("  p50", "beside_p50_ns", None),
        added("  p99", "beside_p99_ns", None),
        Row("  memory of an idle stream", "KiB", idle, idle["--public"] * 1.024, "kB", 8),
    ]


def tables(samples: Samples, streams: int) -> str:
    """All rows as text."""
    return "\n\n".join(f"{way}\n{table(rows(samples[way], streams))}" for way in WAYS)
