"""What it costs to make the script of a capture, against a plain reading of the same capture in the same run.

    python -m tests.bench.playback [--frames N ...] [--rounds N] [--json]

A capture of calls and responses is read, made into a script, and made into one again from the cache, each in a process
of its own. The first answer is counted from the imports on; captures below 1 MiB are not cached. It informs, and never
fails because of a figure.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.bench.tui import make

ROOT: Final = Path(__file__).parents[2]
FRAMES: Final = (1_000, 100_000, 1_000_000)
RAW_COUNT: Final = 5_000
MAX_FIRST_MS: Final = 30
MAX_RATIO: Final = 1.5
MAX_MIB: Final = 300
MAX_RAW_US: Final = 30
"""The budgets."""


def _read(path: Path) -> dict[str, float]:
    from analysis.garbage import make_collections_rare
    from analysis.reading import Reading

    make_collections_rare()
    begun_s = time.process_time()
    for _ in Reading(path).to_end():
        pass
    return {"complete_s": time.process_time() - begun_s}


def _make_script(path: Path, *, is_cached: bool) -> dict[str, float]:
    loaded_ns = time.perf_counter_ns()
    from analysis.garbage import make_collections_rare
    from analysis.playback.matching import Matching
    from analysis.playback.script import Script

    if not is_cached:
        import analysis.playback.script_reading  # noqa: F401 - it is imported once it is needed

    make_collections_rare()
    imported_ns, begun_s = time.perf_counter_ns(), time.process_time()
    script = Script(path, Matching())
    opened_ns = time.perf_counter_ns()
    while not script.answer_of(0) and script.grow(10):
        pass
    first_ns = time.perf_counter_ns()
    while script.grow():
        pass
    complete_s = time.process_time() - begun_s
    items = script.items[: RAW_COUNT * 2 : 2]
    raw_ns = time.perf_counter_ns()
    for item in items:
        script.raw(item)
    raw_ns = time.perf_counter_ns() - raw_ns
    script.save()
    script.close()
    return {
        "import_ms": (imported_ns - loaded_ns) / 1e6,
        "open_ms": (opened_ns - imported_ns) / 1e6,
        "first_ms": (first_ns - opened_ns) / 1e6,
        "complete_s": complete_s,
        "raw_us": raw_ns / len(items) / 1e3,
    }


def _child(what: str, path: Path, cache: Path) -> dict[str, float]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's second start finds compiled modules
    command = [sys.executable, "-m", "tests.bench.playback", "--child", what, str(path)]
    found = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(found.stdout)
    return figures


def measured(frames: int, rounds: int) -> dict[str, Any]:
    """The figures of a capture with about this number of frames: the medians of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder, "x.mcpcap"), Path(folder, "cache")
        make(path, frames // 2)
        _child("script", path, Path(folder, "unused"))
        found: dict[str, list[dict[str, float]]] = {"reading": [], "script": [], "cached": []}
        for turn in range(rounds):
            found["reading"].append(_child("reading", path, cache))
            found["script"].append(_child("script", path, Path(folder, f"cache-{turn}")))
            found["cached"].append(_child("cached", path, Path(folder, f"cache-{turn}")))
    medians = {
        what: {name: statistics.median(one[name] for one in runs) for name in runs[0]} for what, runs in found.items()
    }
    ratios = [
        script["complete_s"] / reading["complete_s"]
        for script, reading in zip(found["script"], found["reading"], strict=True)
    ]
    return {"frames": frames, **medians, "ratio": statistics.median(ratios)}


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as text."""
    lines = []
    for row in rows:
        lines.append(f"{row['frames']:,} frames: plain reading {row['reading']['complete_s']:.2f} s of processor time")
        for what in ("script", "cached"):
            one = row[what]
            first_ms = one["open_ms"] + one["first_ms"]
            lines.append(
                f"  {what:<7} import {one['import_ms']:4.0f} ms, first answer {first_ms:5.1f} ms "
                f"({_verdict(first_ms, MAX_FIRST_MS)}), complete {one['complete_s']:6.2f} s, {one['mib']:4.0f} MiB "
                f"({_verdict(one['mib'], MAX_MIB)}), "
                f"raw {one['raw_us']:4.1f} µs ({_verdict(one['raw_us'], MAX_RAW_US)})"
            )
        lines.append(f"  ratio to the reading {row['ratio']:.2f} ({_verdict(row['ratio'], MAX_RATIO)})")
    return "\n".join(lines)


def _verdict(value: float, budget: float) -> str:
    return f"budget {budget}: {'met' if value <= budget else 'MISSED'}"


def main(argv: list[str]) -> int:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, nargs="+", default=[*FRAMES])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        what, path = options.child
        is_cached = what == "cached"
        figures = _read(Path(path)) if what == "reading" else _make_script(Path(path), is_cached=is_cached)
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**figures, "mib": mib}))
        return 0
    rows = [measured(frames, options.rounds) for frames in options.frames]
    print(json.dumps(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
