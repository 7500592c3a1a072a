"""What comparing two captures costs, relative to loading both for SQL and to checking both.

    python -m tests.bench.compare [--frames N] [--rounds N] [--distinct N] [--json]

One conversation, that of the SDK's client with an SDK's server, is repeated with new ids until each of two captures has
enough frames (see `check.py`). In each round, the same captures are compared without findings, loaded by
`query "select 1"` into an empty cache, compared with findings, and checked, each by a new process. The ratios of a
round cancel out how busy the machine is; the median of all rounds is printed. Last, two captures of `--distinct` frames
are compared in which no call has the arguments of another one: they show whether memory is bounded.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from captures.envelope import judge
from captures.file import SEGMENT_BYTES
from captures.paths import segment_path
from captures.record import frame_members, members, seal
from tests.bench.check import _plain, _record, repeated

BUDGET: Final = 1.2
"""How much longer a comparison may take than what it is relative to."""
BUDGET_MIB: Final = 300
TOOLS: Final = 50
QUERY: Final = ["query", "select 1"]
CHECK: Final = ["check", "--json"]
PAIRS: Final = (("compare", "query"), ("compare with findings", "check"))
"""What is measured, and what it is relative to."""
_COMPARE: Final = """
import json, resource, sys
from pathlib import Path

from analysis.comparison.compare import compare
from analysis.comparison.observe_sides import SideSource, observe_sides
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.garbage import make_collections_rare

make_collections_rare()
old, new = (SideSource(path, [(path, Path(path))]) for path in sys.argv[2:4])
sides = observe_sides(old, new, ObserveOptions(with_findings=sys.argv[1] == "findings"))
comparison = compare(*sides, CompareOptions())
most = max(resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
mib = most / (1 << (20 if sys.platform == "darwin" else 10))
print(json.dumps({"mib": mib, "changes": len(comparison.changes), "compared": comparison.compared}))
"""


class Run(NamedTuple):
    """One run of a command."""

    wall_s: float
    cpu_s: float
    """The processor seconds of the command and its processes."""
    output: str


def run(command: list[str], cache: Path) -> Run:
    """Run a command with an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    began, used = time.perf_counter(), _used_s()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, env={**_plain(), "XDG_CACHE_HOME": str(cache)}, text=True, check=False
    )
    if done.returncode > 1:
        raise RuntimeError(f"{command[:4]} ended with {done.returncode}")
    return Run(time.perf_counter() - began, _used_s() - used, done.stdout)


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compared(what: str, paths: list[Path], cache: Path) -> tuple[Run, dict[str, Any]]:
    """Compare two captures; return the run and the figures of the process.

    Args:
        what: `findings` to check the rules, or anything else.
        paths: the captures.
        cache: a folder for caches.
    """
    done = run([sys.executable, "-c", _COMPARE, what, *map(str, paths)], cache)
    figures: dict[str, Any] = json.loads(done.output)
    if figures["changes"]:
        raise RuntimeError("two captures of the same conversation differ")
    return done, figures


def measured(paths: list[Path], rounds: int, cache: Path) -> dict[str, Any]:
    """Measure everything that is compared; returns seconds, ratios and memory."""
    runs: dict[str, list[Run]] = {"compare": [], "query": [], "compare with findings": [], "check": []}
    mib = 0.0
    for _ in range(rounds):
        for name, what, command in (("compare", "", QUERY), ("compare with findings", "findings", CHECK)):
            done, figures = compared(what, paths, cache)
            runs[name].append(done)
            mib = max(mib, figures["mib"])
            runs[command[0]].append(run([sys.executable, "-m", "mcpproxy", *command, *map(str, paths)], cache))
    return {
        "seconds": {name: statistics.median(done.wall_s for done in each) for name, each in runs.items()},
        "ratios": {other: _ratio(runs[name], runs[other], "wall_s") for name, other in PAIRS},
        "cpu_ratios": {other: _ratio(runs[name], runs[other], "cpu_s") for name, other in PAIRS},
        "mib": mib,
    }


def _ratio(runs: list[Run], others: list[Run], figure: str) -> float:
    """Returns the median of the ratios of a figure in each round."""
    ratios: list[float] = [getattr(one, figure) / getattr(two, figure) for one, two in zip(runs, others, strict=True)]
    return statistics.median(ratios)


def write_distinct(path: Path, frames: int, capture: str) -> None:
    """Write a capture of calls of which no two have the same arguments."""
    seq = segment = 0
    file = None
    for number in range(frames // 2):
        if file is None or file.tell() > SEGMENT_BYTES:
            if file is not None:
                file.write(seal(seq, seq * 1000, "close", members(ending="segment")))
                file.close()
                seq += 1
            segment += 1
            file = open(segment_path(path, segment), "wb")  # noqa: SIM115 - closed with the next
            head = {"format": 1, "capture": capture, "segment": segment, "transport": "stdio"}
            file.write(seal(seq, seq * 1000, "header", members(**head, observed_start=True)))
            seq += 1
        params = {"name": f"tool-{number % TOOLS}", "arguments": {"text": f"argument {number}"}}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        result = {"content": [{"type": "text", "text": f"result {number}"}], "isError": number % 9 == 0}
        response = {"jsonrpc": "2.0", "id": number, "result": result}
        for direction, message in (("c2s", request), ("s2c", response)):
            raw = json.dumps(message).encode()
            file.write(seal(seq, seq * 1000, "frame", frame_members(direction, raw, judge(raw, direction))))  # type: ignore[arg-type]
            seq += 1
    if file is not None:
        file.write(seal(seq, seq * 1000, "close", members(ending="client", status=0)))
        file.close()


def table(found: dict[str, Any], frames: int, distinct: dict[str, Any] | None) -> str:
    """The figures as text."""
    seconds, ratios = found["seconds"], found["ratios"]
    lines = [f"two captures of {frames:,} frames each, {found['mib']:.0f} MiB"]
    for name, other in PAIRS:
        verdict = "met" if ratios[other] <= BUDGET else "MISSED"
        lines.append(
            f"{name:<22} {seconds[name]:6.2f} s   {other:<6} {seconds[other]:6.2f} s   ratio {ratios[other]:.2f} "
            f"({found['cpu_ratios'][other]:.2f} of processor time), budget {BUDGET}: {verdict}"
        )
    if distinct is not None:
        verdict = "met" if distinct["mib"] <= BUDGET_MIB else "MISSED"
        lines.append(
            f"{distinct['frames']:,} frames each, all calls different: {distinct['wall_s']:.1f} s, "
            f"{distinct['mib']:.0f} MiB, budget {BUDGET_MIB}: {verdict}"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.compare", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--frames", type=int, default=100_000, help="the frames of each capture")
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds the medians are over")
    parser.add_argument("--distinct", type=int, default=1_000_000, help="the frames of the last comparison; 0 for none")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-") as folder:
        place, distinct = Path(folder), None
        recorded = asyncio.run(_record(place))[0]
        paths = [place / "old.mcpcap", place / "new.mcpcap"]
        for number, path in enumerate(paths):
            frames = repeated(recorded, options.frames, path, is_settled=True, capture=f"{number + 1:032x}")
        found = measured(paths, options.rounds, place / "cache")
        if options.distinct:
            for number, path in enumerate(paths):
                write_distinct(path, options.distinct, f"{number + 3:032x}")
            done, figures = compared("", paths, place / "cache")
            distinct = {"frames": options.distinct, "wall_s": done.wall_s, "mib": figures["mib"]}
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    everything = {"machine": machine, "frames": frames, **found, "distinct": distinct}
    print(json.dumps(everything, indent=1) if options.json else table(found, frames, distinct))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
