"""What one connection's flood costs the other clients of `mcpproxy serve`: latencies relative to calm ones.

    python -m tests.bench.fairness [--json] [--seconds N] [--kind NAME ...]

Four clients POST, each with one request in flight, first alone and then during each kind of flood. Calm and flooded
periods alternate, and each ratio is to the median of the calm ones. `direct` is the same without `serve`: what client
and server, which share a processor with the flood, lose on their own. It informs, and never fails because of a figure.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tests.bench.http_peers import FLOODS
from tests.bench.run import Cores
from tests.bench.serve import PEERS, Address, Seen, Standing, ask, standing, subjects

CLIENTS: Final = 4
BUDGET: Final = 8.0
"""The largest p95 allowed during a flood, as a multiple of the calm p95."""


class Row(NamedTuple):
    """The latencies of the other clients during one kind of flood."""

    kind: str
    calm: Seen
    flooded: Seen

    def ratio(self, figure: str) -> float:
        """Flooded divided by calm."""
        return self.flooded[f"{figure}_ns"] / self.calm[f"{figure}_ns"]


@contextmanager
def flooding(cores: Cores, port: Address, kind: str) -> Iterator[None]:
    """A flood that lasts as long as the block."""
    argv = [*cores.peers, *PEERS, "flood", str(port), kind]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as flood:
        assert flood.stdout is not None
        flood.stdout.readline()
        yield
        if flood.poll() is not None:
            raise RuntimeError(f"the flood {kind!r} ended too early")


def measure(made: Standing, cores: Cores, kinds: list[str], seconds: int) -> list[Row]:
    """Measure calm and flooded periods in turn."""
    ask(cores, "steady", made.port, 1, CLIENTS)
    calm, flooded = [], []
    for kind in kinds:
        calm.append(ask(cores, "steady", made.port, seconds, CLIENTS))
        with flooding(cores, made.port, kind):
            flooded.append(ask(cores, "steady", made.port, seconds, CLIENTS))
        # Lets the rest of the flood drain, so that it does not count in the next calm period.
        ask(cores, "steady", made.port, 1, CLIENTS)
        print(f"bench: {kind}", file=sys.stderr)
    usual = {name: statistics.median(seen[name] for seen in calm) for name in calm[0]}
    return [Row(kind, usual, seen) for kind, seen in zip(kinds, flooded, strict=True)]


def table(found: dict[str, list[Row]]) -> str:
    """The rows as text."""
    lines = [f"{'':<27}{'calm':>9}{'':>9}{'beside it':>9}{'':>9}{'':>9}    {'ratio':>8}{'direct':>24}"]
    lines += [
        f"{'':<27}{'p50':>9}{'p95':>9}{'p50':>9}{'p95':>9}{'max':>9} ms {'p50':>6}{'p95':>7}{'max':>7}{'p95':>10}"
    ]
    for row, direct in zip(found["serve"], found["direct"], strict=True):
        shown = [row.calm["p50_ns"], row.calm["p95_ns"], *(row.flooded[f"{name}_ns"] for name in ("p50", "p95", "max"))]
        ratios = [row.ratio("p50"), row.ratio("p95"), row.ratio("max"), direct.ratio("p95")]
        times = "".join(f"{value / 1e6:>9.2f}" for value in shown)
        verdict = "met" if row.ratio("p95") <= BUDGET else "MISSED"
        lines.append(
            f"{row.kind:<27}{times}    {''.join(f'{ratio:>8.1f}' for ratio in ratios)}   ≤ {BUDGET:.0f} {verdict}"
        )
    worst = statistics.mean(row.ratio("p95") for row in found["serve"])
    return "\n".join([*lines, f"mean of the p95 ratios: {worst:.1f}"])


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fairness", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object with every figure")
    parser.add_argument("--seconds", type=int, default=3, help="how long to measure each period")
    parser.add_argument("--kind", action="append", choices=sorted(FLOODS), help="only this flood; may be repeated")
    options = parser.parse_args(argv)
    cores = Cores.apart()
    found: dict[str, list[Row]] = {}
    for subject in subjects(cores, None):
        with standing(subject, cores) as made:
            found[subject.name] = measure(made, cores, options.kind or list(FLOODS), options.seconds)
    shown = {name: [row._asdict() for row in rows] for name, rows in found.items()}
    print(json.dumps(shown, indent=1) if options.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
