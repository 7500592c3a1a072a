"""What `mcpproxy check` costs: one conversation, repeated with new ids until there are enough frames.

    python -m tests.bench.check [CAPTURE] [--frames N] [--rule G] [--profile] [--rules] [--json]

Without a capture, the SDK's client is recorded with two servers in both eras, as the test of false alarms does, and
each of the four sessions makes a quarter of the frames. The handshake of a session comes once, then the rest is
repeated, each time with new ids, tokens and stamps. The command is timed from its start to its end. Twice the frames
must take twice the time, so half of them are measured first. Last, the same captures are checked on one processor and
on all, with a process for each. The same is done with one capture that has as many frames, its rules shared out.

Processors that others use, too, are at times only half as fast. So each figure is printed with the time that a fixed
loop of Python takes, measured right before and after it.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import orjson

from analysis.checking.budget import DEFAULT_RULE_COST, MAX_COST_US, REASONS_FOR_COST, RULE_COSTS
from analysis.checking.checker import RuleSelection
from analysis.checking.profile import Costs
from analysis.reading import Reading
from analysis.store.open import total_bytes
from captures.envelope import judge
from captures.file import SEGMENT_BYTES
from captures.frame import Frame
from captures.listing import segments
from captures.paths import segment_path
from captures.reader import Capture, assembled_items
from captures.record import frame_members, members, seal

COSTED: Final = 5_000
"""Frames of each capture in which the costs of rules are measured."""
APART: Final = 10_000
"""The distance between the ids of two repetitions."""
IDS: Final = ("id", "requestId", "progressToken", "io.modelcontextprotocol/subscriptionId")
_CAN_RESERVE: Final = hasattr(os, "sched_setaffinity")
HANDSHAKE: Final = ("initialize", "notifications/initialized")


def repeated(path: Path, count: int, place: Path, *, is_settled: bool = False, capture: str = "0" * 32) -> int:
    """Write a capture of at least `count` frames; returns how many there are.

    Args:
        path: the capture of the conversation to repeat.
        count: how many frames to write.
        place: the file to write.
        is_settled: leave out requests without a response, which would stay open forever.
        capture: the id of the capture to write.
    """
    frames = [item for item in assembled_items(Capture(path)) if isinstance(item, Frame)]
    if is_settled:
        frames = _settled(frames)
    opening, body = _parted([frame for frame in frames if frame.verdict.kind not in ("invalid", "batch", "unjudged")])
    with _Out(place, capture) as out:
        for frame in opening:
            out.frame(frame, frame.raw)
        turn = 0
        while out.frames < count:
            turn += 1
            for frame in body:
                out.frame(frame, orjson.dumps(_renumbered(orjson.loads(frame.raw), turn * APART)))
    return out.frames


class _Out:
    """A capture being written, in segments as a recorder makes them."""

    def __init__(self, place: Path, capture: str) -> None:
        for old in segments(place):
            old.unlink(missing_ok=True)
        self._place, self._capture = place, capture
        self._seq = self._segment = self.frames = 0
        self._file = self._begun()

    def frame(self, frame: Frame, raw: bytes) -> None:
        """Write a message in the way that `frame` came."""
        if self._file.tell() > SEGMENT_BYTES:
            self._add("close", members(ending="segment"))
            self._file.close()
            self._file = self._begun()
        self._add("frame", frame_members(frame.dir, raw, judge(raw, frame.dir)))
        self.frames += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._add("close", members(ending="client", status=0))
        self._file.close()

    def _begun(self) -> BinaryIO:
        self._segment += 1
        self._file = open(segment_path(self._place, self._segment), "wb")  # noqa: SIM115 - closed with the next
        head = {"format": 1, "capture": self._capture, "segment": self._segment}
        self._add("header", members(**head, transport="stdio", observed_start=True))
        return self._file

    def _add(self, rec: str, middle: bytes) -> None:
        self._file.write(seal(self._seq, self._seq * 1_000_000, rec, middle))
        self._seq += 1


def _parted(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The frames of the handshake, and those that can be repeated."""
    opening: list[Frame] = []
    ids: set[bytes | None] = set()
    for frame in frames:
        if frame.verdict.method in HANDSHAKE or (frame.verdict.kind == "response" and frame.verdict.id in ids):
            opening.append(frame)
            ids = {frame.verdict.id} if frame.verdict.method == "initialize" else set()
    return opening, [frame for frame in frames if frame not in opening]


def _settled(frames: list[Frame]) -> list[Frame]:
    """The frames without requests that have no response, and their cancellations."""
    answered = {(frame.dir, frame.verdict.id) for frame in frames if frame.verdict.kind in ("response", "error")}
    return [
        frame
        for frame in frames
        if frame.verdict.method != "notifications/cancelled"
        and (frame.verdict.kind != "request" or ("s2c" if frame.dir == "c2s" else "c2s", frame.verdict.id) in answered)
    ]


def _renumbered(value: Any, by: int) -> Any:
    """The same message with other ids and tokens."""
    if isinstance(value, dict):
        return {
            name: inner + by
            if name in IDS and type(inner) is int
            else f"{inner}-{by}"
            if name in IDS and isinstance(inner, str)
            else _renumbered(inner, by)
            for name, inner in value.items()
        }
    return [_renumbered(inner, by) for inner in value] if isinstance(value, list) else value


async def _record(place: Path) -> list[Path]:
    """The sessions of the SDK's client, in both eras."""
    from mcp.shared.exceptions import MCPDeprecationWarning

    from tests.mcpproxy.test_no_false_alarm_integration import LIBRARY, use_the_library
    from tests.mcpproxy.test_sdk_integration import SERVER, recorded, use_everything

    warnings.simplefilter("ignore", MCPDeprecationWarning)  # about features of older revisions
    made = []
    for mode in ("legacy", "2026-07-28"):
        for name, server, use in (("sdk", SERVER, use_everything), ("library", LIBRARY, use_the_library)):
            made.append(place / f"{name}-{mode}.mcpcap")
            async with recorded(server, made[-1], mode) as client:
                await use(client)
    return made


def timed(places: list[Path], rules: list[str]) -> float:
    """Run the command; returns the processor seconds that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "mcpproxy",
        "check",
        "--json",
        *[word for rule in rules for word in ("--rule", rule)],
    ]
    command += map(str, places)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env=_plain())
    if done.returncode > 1:
        raise RuntimeError(f"check ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_and_all(places: list[Path]) -> dict[str, float]:
    """Elapsed seconds that checking captures takes on one processor and on all: the best of three each."""
    usable = sorted(os.sched_getaffinity(0))
    took: dict[int, list[float]] = {1: [], len(usable): []}
    for _ in range(3):
        for count in took:
            os.sched_setaffinity(0, usable[:count])
            began = time.perf_counter()
            timed(places, [])
            took[count].append(time.perf_counter() - began)
    os.sched_setaffinity(0, usable)
    alone_s, together_s = min(took[1]), min(took[len(usable)])
    return {
        "captures": len(places),
        "processors": len(usable),
        "one_processor_s": alone_s,
        "all_processors_s": together_s,
        "faster": alone_s / together_s,
    }


def pace() -> float:
    """Processor milliseconds that a fixed loop of Python takes: the median of seven."""
    took = []
    for _ in range(7):
        began, kept = time.process_time(), dict[int, int]()
        for number in range(200_000):
            kept[number & 255] = kept.get(number & 127, 0) + len(str(number))
        took.append((time.process_time() - began) * 1e3)
    return sorted(took)[3]


def _plain() -> dict[str, str]:
    """The environment without the variable that slows Python's start down."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _checked(place: Path) -> int:
    """The number of findings in a capture."""
    return sum(len(step.findings) for step in Reading(place, RuleSelection()).to_end("closed"))


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument(
        "--rule", action="append", default=[], metavar="G", help="only these rules, as `check` takes them"
    )
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--rules", action="store_true", help="print only what each rule costs, and stop")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-bench-") as folder:
        place = Path(folder)
        captures = [options.capture] if options.capture else asyncio.run(_record(place))
        many = [place / f"many-{number}.mcpcap" for number in range(len(captures))]
        if options.rules:
            for capture, one in zip(captures, many, strict=True):
                repeated(capture, COSTED, one)
            _tell_costs(rule_costs(many))
            return 0
        rows = []
        for wanted in (options.frames // 2, options.frames):
            frames = sum(
                repeated(capture, wanted // len(captures), one) for capture, one in zip(captures, many, strict=True)
            )
            before = pace()
            rows.append(
                {
                    "frames": frames,
                    "bytes": total_bytes(many),
                    "seconds": timed(many, options.rule),
                    "pace_ms": (before + pace()) / 2,
                }
            )
        if options.profile:
            _profile(many)
        large = place / "large.mcpcap"
        repeated(captures[0], options.frames, large)
        by_processors = [one_and_all(many), one_and_all([large])] if _CAN_RESERVE else []
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    if options.json:
        print(json.dumps({"rows": rows, "max_rss_mib": rss, "processors": by_processors}, indent=1))
        return 0
    for row in rows:
        each = row["seconds"] / row["frames"] * 1e6
        print(
            f"{row['frames']:>10,} frames  {row['seconds']:6.1f} s  {each:5.1f} µs each"
            f"  (the loop: {row['pace_ms']:.0f} ms)"
        )
    print(f"twice the frames: {rows[1]['seconds'] / rows[0]['seconds']:.2f} × the time; at most {rss:,.0f} MiB")
    for row in by_processors:
        print(
            f"captures at once: {row['captures']}, by the clock: {row['one_processor_s']:.1f} s on one processor,"
            f" {row['all_processors_s']:.1f} s on {row['processors']} ({row['faster']:.2f} × as fast)"
        )
    return 0


def rule_costs(places: list[Path]) -> dict[str, tuple[float, float]]:
    """Microseconds and calls of each rule per frame, on average over captures: the least time of five."""
    total: dict[str, tuple[float, float]] = {}
    for place in places:
        least: dict[str, tuple[float, float]] = {}
        for _ in range(5):
            costs, frames = Costs(), 0
            gc.disable()  # a garbage collection would count for the rule during which it happens
            for step in Reading(place, RuleSelection(costs=costs)).to_end("closed"):
                frames += isinstance(step.item, Frame)
            gc.enable()
            gc.collect()
            for id_, cost in costs.rules.items():
                each = cost.ns / 1e3 / frames, cost.calls / frames
                least[id_] = min(least.get(id_, each), each)
        for id_, (us, calls) in least.items():
            before = total.get(id_, (0.0, 0.0))
            total[id_] = before[0] + us / len(places), before[1] + calls / len(places)
    return total


def _tell_costs(costs: dict[str, tuple[float, float]]) -> None:
    """Print the rules that cost most; mark those above the budget without a reason."""
    for id_, (us, calls) in sorted(costs.items(), key=lambda item: item[1], reverse=True):
        if us >= DEFAULT_RULE_COST:
            mark = "" if us <= MAX_COST_US else f"  {REASONS_FOR_COST.get(id_, 'ABOVE THE BUDGET')}"
            print(
                f"{us:7.2f} µs  {calls:5.2f} calls  budget {RULE_COSTS.get(id_, DEFAULT_RULE_COST):4.2f}  {id_}{mark}"
            )
    print(f"{sum(us for us, _ in costs.values()):7.2f} µs for each frame in all")


def _profile(places: list[Path]) -> None:
    profile = cProfile.Profile()
    profile.runcall(lambda: [_checked(place) for place in places])
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
