"""What SQL over captures costs: to load, to open again, and to query, at several sizes.

    python -m tests.bench.store [--frames N]… [--small N] [--http] [--huge] [--json]

One conversation, that of the SDK's client with an SDK's server, is repeated with new ids until there are enough frames
(see `check.py`). Each size is loaded by a process of its own, first without any cache, then into one, then from it;
then `--small` captures of one conversation each are queried together. Next to the load, the table shows the reading and
the fold alone, of which it consists. `--huge` is loaded into the cache only: all its rows in memory would be 16 GiB.
All its calls are answered: with a cancelled one in each repetition, more calls would be open than the fold keeps.
`--http` repeats two conversations over HTTP instead, the first with responses as JSON, the other with streams; the
small captures stay the same.
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

import orjson

from analysis.store.open import total_bytes
from captures.envelope import judge
from captures.frame import Frame
from captures.listing import segments
from captures.reader import Capture, read_frames
from captures.record import Record, frame_members, members, seal
from tests.bench.check import APART, _record, _renumbered, repeated

SIZES: Final = (10_000, 100_000, 1_000_000)
HUGE: Final = 10_000_000
BUDGET_YARDS: Final = 2.8
"""For a million frames. A yard is the time that the standard library's `json` takes for each line and its message."""
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
    from analysis.conversation.fold import Fold
    from analysis.garbage import make_collections_rare
    make_collections_rare()
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

def yard(paths):
    for path in paths:
        for line in path.read_bytes().splitlines():
            raw = json.loads(line).get("raw")
            if raw:
                json.loads(raw)

def views(connection, rows):
    from analysis.store.reference import view_texts
    took = {}
    for name in view_texts():
        asked = f"select * from {name} limit {rows}"
        connection.execute(asked).fetchall()
        _, took[name], _ = timed(lambda: connection.execute(asked).fetchall())
    return took

what, limits, *paths = sys.argv[1:]
do = {"read": read, "fold": fold, "load": load, "yard": yard, "views": load}[what]
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
    """Measure one thing in a separate process, and each view over every number of rows in `limits`."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "MCPPROXY_CACHE_SIZE": size}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _CHILD, what, json.dumps(limits), *map(str, paths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env)
    if done.returncode:
        raise RuntimeError(f"{what} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(place: Path, paths: list[Path], frames: int) -> dict[str, Any]:
    """Measure everything at one size."""
    cache, is_huge = place / "cache", frames >= HUGE
    row: dict[str, Any] = {"captures": len(paths), "frames": frames, "bytes": total_bytes(paths)}
    for what in ("read", "fold", *(() if is_huge else ("load",))):
        row[what] = child(what, paths, cache, "0")
    row["yard"] = child("yard", paths, cache)
    row["store"] = child("load", paths, cache)
    row["open"] = child("views", paths, cache, limits=[SOME] if is_huge else [SOME, EVERY])
    row["cached_bytes"] = sum(one.stat().st_size for one in cache.rglob("*.duckdb"))
    shutil.rmtree(cache, ignore_errors=True)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text: elapsed and processor seconds, memory, and the cache's size relative to the capture's."""
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
    for row in (row for row in rows if row["captures"] == 1 and row["frames"] >= min(SIZES)):
        each, yards = row["store"]["cpu_s"] * 1e6 / row["frames"], row["store"]["cpu_s"] / row["yard"]["cpu_s"]
        lines.append(
            f"{row['frames']:,} frames into the cache: {each:.1f} µs of processor a frame, {yards:.1f} yards, "
            f"budget {BUDGET_YARDS}: {'met' if yards <= BUDGET_YARDS else 'MISSED'}"
        )
    return "\n".join(lines)


def _record_over_http(place: Path) -> list[Path]:
    """Record the SDK's client with an SDK's server, once with responses as JSON, once as streams."""
    from tests.http_harness import serving
    from tests.mcpproxy.test_serve_sdk_integration import Talk, own_place, serve_sdk

    made = []
    for options in (["--json"], []):

        async def converse(talk: Any) -> None:
            async with talk.client() as client:
                await client.list_tools()
                await talk.call(client, "count", steps=3)
                await talk.call(client, "fail")
                for tool in () if options else ("dream", "greet"):  # noqa: B023 - called at once
                    await talk.call(client, tool)
                await client.read_resource("note://groceries")
                await talk.call(client, "count", steps=1)

        made.append(place / f"http{''.join(options)}.mcpcap")
        root = place / made[-1].stem
        root.mkdir()
        with own_place(root) as own, serve_sdk(own, *options) as (url, _):
            with serving(own, url) as recorder:
                asyncio.run(converse(Talk(recorder.url, "2025-11-25")))
            shutil.copy(recorder.capture, made[-1])
    return made


def repeated_over_http(path: Path, count: int, place: Path) -> int:
    """Write a capture of at least `count` frames over HTTP; returns how many there are.

    The handshake, the list of tools and the standing stream come once; all other exchanges are repeated.
    """
    records = [item for item in Capture(path) if isinstance(item, Record)]
    once = {
        record.members["exchange"]
        for record in records
        if record.members.get("method") in ("initialize", "notifications/initialized", "tools/list")
        or record.members.get("request", {}).get("method", "POST") != "POST"
    }
    ends = {"end", "ended"}
    opening, body, tail = list[Record](), list[Record](), list[Record]()
    for record in records:
        number, rest = record.members.get("exchange"), body or tail
        if number is not None and number not in once:
            body.append(record)
        elif rest and (number is None or ends & {record.members.get("stage"), record.members.get("event")}):
            tail.append(record)
        elif record.members.get("request", {}).get("method") != "DELETE":
            opening.append(record)
    numbers = {number: at for at, number in enumerate(dict.fromkeys(one.members["exchange"] for one in body))}
    known = {number: at for at, number in enumerate(dict.fromkeys(one.members.get("exchange") for one in opening))}
    seq = frames = turn = 0
    with place.open("wb") as out:

        def put(record: Record, number: int | None, turn: int) -> None:
            nonlocal seq
            out.write(seal(seq, seq * 1_000_000, record.rec, _again(record, number, seq * 1_000_000, turn)))
            seq += 1

        for record in opening:
            put(record, known[record.members.get("exchange")], 0)
        while frames < count:
            turn += 1
            for record in body:
                put(record, len(known) + (turn - 1) * len(numbers) + numbers[record.members["exchange"]], turn)
                frames += record.rec == "frame"
        for record in tail:
            if record.members.get("exchange") in (None, *known):
                put(record, known.get(record.members.get("exchange")), 0)
    return frames + sum(record.rec == "frame" for record in opening)


def _again(record: Record, number: int | None, t_ns: int, turn: int) -> bytes:
    """The middle of a repeated record, with the number of another exchange and with other ids."""
    told = {name: value for name, value in record.members.items() if name not in ("seq", "rec", "t_ns", "crc")}
    if "exchange" in told:
        told["exchange"], told["conn"] = number, told["conn"] + turn * APART
    if "event_id" in told:
        told["event_id"] += f"-{turn}"
    if record.rec != "frame":
        if "times" in told:
            told["times"] = {name: max(0, at - record.t_ns + t_ns) for name, at in told["times"].items()}
        return members(**told)
    raw = told["raw"].encode()
    if raw:
        raw = orjson.dumps(_renumbered(orjson.loads(raw), turn * APART))
    place = {name: told[name] for name in ("conn", "exchange", "unit", "event_id") if name in told}
    return frame_members(told["dir"], raw, judge(raw, told["dir"], told["unit"]), **place)


def _copied(one: Path, place: Path, number: int) -> Path:
    """Copy a capture under a new id, because byte-for-byte copies would count once."""
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
    parser.add_argument("--http", action="store_true", help="over HTTP")
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
        over_http = _record_over_http(place) if options.http else []
        for frames in sizes:
            for source in over_http or [one]:
                many = place / f"many-{frames}-{source.name}"
                count = (
                    repeated_over_http(source, frames, many)
                    if over_http
                    else repeated(source, frames, many, is_settled=frames >= HUGE)
                )
                rows.append(measured(place, [many], count))
                for segment in segments(many):
                    segment.unlink()
        if options.small:
            small = [_copied(one, place / f"small-{number}.mcpcap", number) for number in range(options.small)]
            frames = sum(isinstance(item, Frame) for item in read_frames(Capture(one)))
            rows.append(measured(place, small, options.small * frames))
    print(json.dumps({"rows": rows}, indent=1) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
