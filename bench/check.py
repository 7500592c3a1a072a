"""What `mcpproxy check` costs: one conversation, repeated with new ids until there are enough frames.

    python -m bench.check [CAPTURE] [--frames N] [--profile] [--json]

The conversation is the body of a recorded session (the demo's, where none is named): its handshake stands once in
front, then the rest comes again and again, each time with ids, tokens and stamps of its own. Reading, judging, folding
and checking are all counted, as they are in the command. Twice the frames must take twice the time, so half of them
are measured first.
"""

import argparse
import cProfile
import json
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from analysis.checker import Checker
from captures.envelope import judge
from captures.frame import Frame
from captures.reader import Capture, read_frames
from captures.record import frame_members, members, seal

DEMO: Final = Path(__file__).parents[1] / "tests" / "corpus" / "captures" / "demo.mcpcap"
APART: Final = 10_000
"""How far the ids of two repetitions lie apart."""
HANDSHAKE: Final = ("initialize", "notifications/initialized")


def repeated(path: Path, count: int, place: Path) -> int:
    """Write a capture of at least `count` frames; returns how many there are."""
    frames = [item for item in read_frames(Capture(path)) if isinstance(item, Frame)]
    opening, body = _parted([frame for frame in frames if frame.verdict.kind not in ("invalid", "batch", "unjudged")])
    seq = 1
    with place.open("wb") as out:
        header = {"format": 1, "capture": "0" * 32, "segment": 1, "transport": "stdio", "observed_start": True}
        out.write(seal(0, 0, "header", members(**header)))
        for frame in opening:
            seq = _write(out, seq, frame, frame.raw)
        turn = 0
        while seq <= count:
            turn += 1
            for frame in body:
                seq = _write(out, seq, frame, orjson.dumps(_renumbered(orjson.loads(frame.raw), turn * APART)))
        out.write(seal(seq, seq * 1_000_000, "close", members(ending="client", status=0)))
    return seq - 1


def _parted(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The handshake, and all that can come again."""
    opening: list[Frame] = []
    ids: set[bytes | None] = set()
    for frame in frames:
        if frame.verdict.method in HANDSHAKE or (frame.verdict.kind == "response" and frame.verdict.id in ids):
            opening.append(frame)
            ids = {frame.verdict.id} if frame.verdict.method == "initialize" else set()
    return opening, [frame for frame in frames if frame not in opening]


def _write(out: Any, seq: int, frame: Frame, raw: bytes) -> int:
    text = frame_members(frame.dir, raw, judge(raw, frame.dir))
    out.write(seal(seq, seq * 1_000_000, "frame", text))
    return seq + 1


def _renumbered(value: Any, by: int) -> Any:
    """The same message with other ids and tokens."""
    if isinstance(value, dict):
        return {
            name: inner + by
            if name in ("id", "requestId", "progressToken") and type(inner) is int
            else f"{inner}-{by}"
            if name == "id" and isinstance(inner, str)
            else _renumbered(inner, by)
            for name, inner in value.items()
        }
    return [_renumbered(inner, by) for inner in value] if isinstance(value, list) else value


def timed(place: Path) -> tuple[float, int]:
    """Seconds of processor that a check takes, and what it found."""
    began = time.process_time()
    found = len(list(_checked(place)))
    return time.process_time() - began, found


def _checked(place: Path) -> Iterator[object]:
    checker = Checker()
    for item in read_frames(Capture(place)):
        yield from checker.feed(item)
    yield from checker.finish("closed")
    if checker.faults:
        raise RuntimeError(f"rules raised: {checker.faults}")


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture", nargs="?", type=Path, default=DEMO)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-") as folder:
        place = Path(folder) / "repeated.mcpcap"
        rows = []
        for wanted in (options.frames // 2, options.frames):
            frames = repeated(options.capture, wanted, place)
            size = place.stat().st_size
            seconds, found = timed(place)
            rows.append({"frames": frames, "bytes": size, "seconds": seconds, "findings": found})
        if options.profile:
            _profile(place)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print(json.dumps({"rows": rows, "max_rss_mib": rss}, indent=1))
        return 0
    for row in rows:
        each = row["seconds"] / row["frames"] * 1e6
        print(
            f"{row['frames']:>10,} frames  {row['seconds']:6.1f} s  {each:5.1f} µs each  {row['findings']:,} findings"
        )
    print(f"twice the frames: {rows[1]['seconds'] / rows[0]['seconds']:.2f} × the time; at most {rss:,.0f} MiB")
    return 0


def _profile(place: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(lambda: list(_checked(place)))
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
