"""What SQL over captures costs: to load, to open again, and to ask, at several sizes.

    python -m tests.bench.store [--frames N]… [--small N] [--huge] [--json]

One conversation, that of the SDK's client with an SDK's server, is repeated with new ids until there are enough frames
(see `check.py`). Each size is loaded by a process of its own, first without any cache, then into one by the fold alone
and as usual, with SQL where that is exact, then from it; then `--small` captures of one conversation each are asked
together. Beside the load stand the reading and the fold alone, of which it is made. `--huge` is loaded into the cache
only: all its rows in memory would be 16 GiB.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from captures.frame import Frame
from captures.reader import Capture, read_frames
from tests.bench.check import _record, repeated

SIZES: Final = (10_000, 100_000, 1_000_000)
HUGE: Final = 10_000_000
BUDGET_S: Final = 15
"""For a million frames."""
SOME: Final = 1000
EVERY: Final = 1 << 40

_CHILD: Final = """
import json, os, resource, sys, time
from pathlib import Path

# DuckDB takes this for a prompt, and draws a bar on stdout while a statement is slow.
told_to = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def used():
    both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)

def timed(what):
    wall, cpu = time.perf_counter(), used()
    found = what()
    return found, time.perf_counter() - wall, used() - cpu

def read(paths):
    from captures.reader import Capture, read_frames
    return sum(1 for path in paths for _ in read_frames(Capture(path)))

def fold(paths):
    import gc
    from analysis.conversation.fold import Fold
    gc.set_threshold(100_000, 50, 100)  # as a load has it
    from captures.reader import Capture, read_frames
    for path in paths:
        folded = Fold()
        for item in read_frames(Capture(path)):
            folded.feed(item)

def load(paths):
    import duckdb
    from analysis.store.open import prepare, sources
    connection = duckdb.connect()
    prepare(connection, sources(paths).readable)
    return connection

def folded(paths):
    from analysis.store.plain import parent
    parent.SMALLEST = 1 << 60
    return load(paths)

def views(connection, rows):
    from analysis.store.reference import view_texts
    took = {}
    for name in view_texts():
        asked = f"select * from {name} limit {rows}"
        connection.execute(asked).fetchall()
        _, took[name], _ = timed(lambda: connection.execute(asked).fetchall())
    return took

what, limits, *paths = sys.argv[1:]
do = {"read": read, "fold": fold, "load": load, "folded": folded, "views": load}[what]
found, wall, cpu = timed(lambda: do([*map(Path, paths)]))
told = {"wall_s": wall, "cpu_s": cpu}
told["views_s"] = {limit: views(found, limit) for limit in json.loads(limits)}
most = max(resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
told["mib"] = most / (1 << (20 if sys.platform == "darwin" else 10))
os.write(told_to, json.dumps(told).encode())
"""


def child(
    what: str, paths: list[Path], cache: Path, size: str = "100G", *, limits: Sequence[int] = ()
) -> dict[str, Any]:
    """Measure one thing in a process of its own, and each view with so many rows."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "MCPPROXY_CACHE_SIZE": size}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _CHILD, what, json.dumps(limits), *map(str, paths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env)
    if done.returncode:
        raise RuntimeError(f"{what} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(place: Path, paths: list[Path], frames: int) -> dict[str, Any]:
    """Everything about one size."""
    cache, is_huge = place / "cache", frames >= HUGE
    row: dict[str, Any] = {"captures": len(paths), "frames": frames, "bytes": sum(one.stat().st_size for one in paths)}
    for what in ("read", "fold", *(() if is_huge else ("load",))):
        row[what] = child(what, paths, cache, "0")
    row["folded"] = child("folded", paths, cache)
    shutil.rmtree(cache, ignore_errors=True)
    row["store"] = child("load", paths, cache)
    row["open"] = child("views", paths, cache, limits=[SOME] if is_huge else [SOME, EVERY])
    row["cached_bytes"] = sum(one.stat().st_size for one in cache.rglob("*.duckdb"))
    shutil.rmtree(cache, ignore_errors=True)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text: seconds on the clock and of the processor, memory, and the cache's size to the capture's."""
    times = ("read", "fold", "load", "store", "open")
    lines = [
        f"{'frames':>11} {'captures':>8}"
        + "".join(f" {head:>8}" for head in (*times[:4], "(cpu)", "open"))
        + f" {'load MiB':>9} {'store MiB':>9} cache"
    ]
    for row in rows:
        seconds = [row[what]["wall_s"] if what in row else None for what in times]
        seconds.insert(4, row["store"]["cpu_s"])
        memory = [row[what]["mib"] if what in row else None for what in ("load", "store")]
        lines.append(
            f"{row['frames']:>11,} {row['captures']:>8,}"
            + "".join(f" {'-' if one is None else f'{one:.2f}s':>8}" for one in seconds)
            + "".join(f" {'-' if one is None else f'{one:,.0f}':>9}" for one in memory)
            + f" {row['cached_bytes'] / row['bytes']:>5.0%}"
        )
    lines.append("")
    for row in rows:
        for limit, took in row["open"]["views_s"].items():
            what = (
                "every row of each view, as objects of Python" if int(limit) == EVERY else f"{SOME:,} rows of each view"
            )
            slowest = sorted(took.items(), key=lambda one: -one[1])[:3]
            named = ", ".join(f"{name} {seconds * 1e3:,.0f} ms" for name, seconds in slowest)
            lines.append(f"{row['frames']:,} frames in {row['captures']:,}: {what}, the slowest: {named}")
    for row in rows:
        folded, stored = (row[what]["cpu_s"] * 1e6 / row["frames"] for what in ("folded", "store"))
        lines.append(
            f"{row['frames']:,} frames into the cache: {folded:.1f} µs of processor a frame by the fold alone, "
            f"{stored:.1f} with SQL"
        )
    last = max(rows, key=lambda row: int(row["frames"]))
    store = last["store"]["wall_s"] * 1_000_000 / last["frames"]
    lines.append(
        f"into the cache: {store:.1f} s a million, budget {BUDGET_S} s: {'met' if store <= BUDGET_S else 'MISSED'}"
    )
    return "\n".join(lines)


def _copied(one: Path, place: Path, number: int) -> Path:
    """A copy of a capture with an id of its own: one that is the same byte for byte would count once."""
    head, _, rest = one.read_bytes().partition(b"\n")
    text, _, _ = head.rpartition(b',"crc":')
    text = text.replace(str(Capture(one).header.members["capture"]).encode(), b"%032x" % number)
    place.write_bytes(b'%b,"crc":"%08x"}\n%b' % (text, crc32(text), rest))
    return place


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.store", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, action="append", help="a size; as often as you like")
    parser.add_argument("--small", type=int, default=1000, help="how many captures of one conversation; 0 for none")
    parser.add_argument(
        "--huge", action="store_true", help="ten million frames as well: 6 GB of disk, some half an hour"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    busy = os.getloadavg()[0]
    if busy > 0.3 * (os.cpu_count() or 1):
        print(f"bench: something else runs here (load {busy:.1f}): figures are too high", file=sys.stderr)
    sizes = [*(options.frames or SIZES), *([HUGE] if options.huge else [])]
    rows = []
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-") as folder:
        place = Path(folder)
        one, *_ = asyncio.run(_record(place))
        for size in sizes:
            many = place / f"many-{size}.mcpcap"
            rows.append(measured(place, [many], repeated(one, size, many)))
            many.unlink()
        if options.small:
            small = [_copied(one, place / f"small-{number}.mcpcap", number) for number in range(options.small)]
            frames = sum(isinstance(item, Frame) for item in read_frames(Capture(one)))
            rows.append(measured(place, small, options.small * frames))
    print(json.dumps({"rows": rows}, indent=1) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
