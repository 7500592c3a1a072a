"""What `mcpproxy tui` costs, seen from the terminal: a table with the budgets of a large capture and of a live one.

    python -m tests.bench.tui [--frames N] [--rate N] [--seconds N] [--json]

A capture of calls and responses is opened on a pty and browsed while the rules run; a filter is typed over another one;
then one that grows at a rate is followed, and in a large terminal, one that grows at an ordinary rate and then gets
single rows. A key is answered when the first byte comes back. Memory is the peak of a process; processors are those of
the process that draws and of its worker. It informs, and never fails because of a figure.
"""

import argparse
import fcntl
import json
import math
import os
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyte

from captures.envelope import lines_members
from captures.file import CaptureFile
from captures.record import members, seal, seal_all, use_orjson
from tests.bench.serve import Row, table

ROOT: Final = Path(__file__).parents[2]
SIZE: Final = (140, 40)
TOOLS: Final = (b"read_file", b"search", b"list_directory", b"write_file")
UNKNOWN: Final = re.compile(rb"\x1b\[[?>=<][^a-zA-Z]*[a-zA-Z]|\x1b\[[0-9;?]*\$p")
"""Sequences that pyte would print."""
OPENING: Final = (
    b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}'
    b',"clientInfo":{"name":"bench","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}'
    b',"serverInfo":{"name":"bench","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
).split(b"\n")
FILTERED: Final = 200_000
"""The number of frames in the capture that is filtered."""
FOLLOWED_RATE: Final = 200
"""The frames per second of the capture that is followed in a large terminal."""
FOLLOWED_SIZE: Final = (160, 50)
SINGLE_ROWS: Final = 20
FILTERS: Final = ("method:tools/call", "latency>500us", "has:error", "text:lorem", "level:error")
KEYS: Final = ("j", "k", " ", "\x02", "G", "g", "j", "x", "x", "p")


def opening() -> bytes:
    """The header and the handshake."""
    named = {
        "format": 1,
        "capture": "0" * 32,
        "segment": 1,
        "transport": "stdio",
        "name": "bench",
        "observed_start": True,
    }
    first = seal(0, 0, "header", members(**named, wall_ns=time.time_ns()))
    shaken = [lines_members("s2c" if number == 1 else "c2s", [line])[0] for number, line in enumerate(OPENING)]
    return first + seal_all(1, 0, "frame", shaken)


def pairs(first: int, count: int) -> tuple[list[bytes], list[bytes]]:
    """Calls and their responses."""
    asked = [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{"path":"/home/user/%d.txt"}}}'
        % (n, TOOLS[n % 4], n)
        for n in range(first, first + count)
    ]
    told = [
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}'
        % (n, b"lorem ipsum " * (n % 12))
        for n in range(first, first + count)
    ]
    return asked, told


def block(first_seq: int, first: int, count: int, t_ns: int) -> bytes:
    """The records of calls and their responses."""
    asked, told = pairs(first, count)
    middles = [
        middle for both in zip(lines_members("c2s", asked), lines_members("s2c", told), strict=True) for middle in both
    ]
    return seal_all(first_seq, t_ns, "frame", middles)


def make(path: Path, calls: int) -> int:
    """Write a capture of `calls` calls and their responses; returns the number of frames."""
    first = 1 + len(OPENING)
    with path.open("wb") as out:
        out.write(opening())
        for at in range(0, calls, 500):
            out.write(block(first + 2 * at, at, min(500, calls - at), at * 1_000_000))
        out.write(seal(first + 2 * calls, 2 * calls * 1_000_000, "close", members(ending="client", status=0)))
    return first - 1 + 2 * calls


class Press(NamedTuple):
    """How long a key press took, in seconds."""

    answered_s: float
    """Until the first byte that it caused."""
    waited_s: float
    """How much of that the painting thread waited for a processor."""


class Screen:
    """`mcpproxy tui` on a terminal."""

    def __init__(self, path: Path, home: str, size: tuple[int, int] = SIZE) -> None:
        self.ours, theirs = os.openpty()
        columns, rows = size
        self.received_bytes = 0
        self._terminal = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._terminal)
        self._unseen = b""
        """What was received and is not on the terminal yet: drawing it takes a microsecond per byte."""
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        place = {"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": str(ROOT)}
        environment = {
            **os.environ, **place, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(columns),
            "LINES": str(rows),
        }  # fmt: skip
        command = [sys.executable, "-m", "mcpproxy", "tui", str(path)]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)

    def hear(self, wait_s: float) -> bool:
        """Read what arrives within the given time; returns False if nothing does."""
        if not select.select([self.ours], [], [], wait_s)[0]:
            return False
        data = os.read(self.ours, 1 << 18)
        self.received_bytes += len(data)
        self._unseen += data
        return True

    def text(self) -> str:
        """The text on the terminal."""
        found = re.search(rb"\x1b(?:\[[^a-zA-Z]*)?\Z", self._unseen)  # a sequence that is incomplete
        end = len(self._unseen) if found is None else found.start()
        self._stream.feed(UNKNOWN.sub(b"", self._unseen[:end]))
        self._unseen = self._unseen[end:]
        return "\n".join(self._terminal.display)

    def until(self, pattern: str, most_s: float = 600) -> None:
        """Wait until text that matches the pattern is on the terminal."""
        end = time.monotonic() + most_s
        while not re.search(pattern, self.text()):
            self.hear(0.05)
            if time.monotonic() > end:
                raise TimeoutError(f"{pattern} never came:\n{self.text()}")

    @property
    def counted(self) -> int:
        """The number of frames in the title."""
        found = re.findall(r"([\d,]+) frames", self.text())
        return int(found[-1].replace(",", "")) if found else 0

    def quiet(self) -> None:
        """Wait until nothing arrives for a moment, but at most a second."""
        end = time.monotonic() + 1
        while self.hear(0.06) and time.monotonic() < end:
            pass

    def key(self, key: str) -> Press:
        """Press a key, and wait for the first byte that it causes."""
        self.quiet()
        start, waited = time.monotonic(), self.waited_s()
        os.write(self.ours, key.encode())
        while not self.hear(1):
            if time.monotonic() - start > 5:
                break
        return Press(time.monotonic() - start, self.waited_s() - waited)

    def waited_s(self) -> float:
        """Seconds for which the painting thread was ready and waited for a processor; NaN if unknown."""
        try:
            text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat").read_text()
        except OSError:
            return math.nan
        return int(text.split()[1]) / 1e9

    def peaks(self) -> tuple[float, float]:
        """Peak MiB of the process, and of the largest of its children."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return peak_mib(pid), max((peak_mib(int(child)) for child in children), default=0.0)

    def cpu_s(self) -> float:
        """Seconds of processor time of the process so far."""
        return cpu_s(self.process.pid)

    def worker_cpu_s(self) -> float:
        """Seconds of processor time of its children so far."""
        pid = self.process.pid
        return sum(cpu_s(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def at_rest(wanted: int, place: str) -> dict[str, Any]:
    """Open and browse a large capture, while it is read and after all of it is understood."""
    path = Path(place, "large.mcpcap")
    frames = make(path, wanted // 2)
    start = time.monotonic()
    screen = Screen(path, place)
    try:
        screen.until(r"call +(?:read_file|search)|tools/call ")
        first_s = time.monotonic() - start
        busy = [screen.key(key) for key in KEYS * 3]
        screen.until(rf"{frames:,} frames(?! +analysed)")
        whole_s = time.monotonic() - start
        calm = [screen.key(key) for key in KEYS * 3]
        peak, worker = screen.peaks()
    finally:
        screen.close()
    return {
        "frames": frames,
        "first_screen_s": first_s,
        "understood_s": whole_s,
        "key_busy_ms": percentiles([press.answered_s for press in busy]),
        "wait_busy_ms": percentiles([press.waited_s for press in busy]),
        "key_ms": percentiles([press.answered_s for press in calm]),
        "wait_ms": percentiles([press.waited_s for press in calm]),
        "peak_mib": peak,
        "worker_mib": worker,
    }


def filtered(wanted: int, place: str) -> dict[str, dict[str, float]]:
    """Type filters over a capture that is understood and checked.

    Returns:
        For each, how long after its last key its first rows are shown, and all of them.
    """
    path = Path(place, "filtered.mcpcap")
    frames = make(path, wanted // 2)
    screen = Screen(path, place)
    try:
        screen.until(rf"{frames:,} frames(?! +analysed)")
        type_filter(screen, "level:error", frames)  # once the rules have judged all of it
        return {text: type_filter(screen, text, frames) for text in FILTERS}
    finally:
        screen.close()


def type_filter(screen: Screen, text: str, frames: int) -> dict[str, float]:
    """Type a filter; returns how long after its last key its first rows are shown, and all of them."""
    os.write(screen.ours, b"/\x15" + text[:-1].encode())
    screen.quiet()
    start = time.monotonic()
    os.write(screen.ours, text[-1].encode())
    screen.until(rf"{re.escape(text)} +[\d,]+ of ")
    first_s = time.monotonic() - start
    screen.until(rf"{re.escape(text)} +[\d,]+ of {frames:,} frames(?! …)")
    whole_s = time.monotonic() - start
    os.write(screen.ours, b"\x1b")
    screen.quiet()
    return {"first_s": first_s, "whole_s": whole_s}


def live(rate: int, seconds: int, place: str) -> dict[str, Any]:
    """Follow a capture that grows at a rate."""
    path = Path(place, "live.mcpcap")
    made = CaptureFile(path)
    made.append(opening())
    done = threading.Event()
    late = [0.0]

    def write() -> None:
        start, step = time.monotonic(), 0.05
        count = max(1, int(rate * step / 2))
        for turn in range(int(seconds / step)):
            made.append(
                block(1 + len(OPENING) + 2 * turn * count, turn * count, count, int((time.monotonic() - start) * 1e9))
            )
            ahead = start + (turn + 1) * step - time.monotonic()
            late[0] = max(late[0], -ahead)
            if ahead > 0:
                done.wait(ahead)
        done.set()

    screen = Screen(path, place)
    try:
        screen.until("following")
        cpu = screen.cpu_s()
        writer = threading.Thread(target=write)
        writer.start()
        lags = []
        start = time.monotonic()
        while not done.is_set():
            screen.hear(0.05)
            passed = time.monotonic() - start
            if passed > 1:
                lags.append(max(0.0, min(passed, seconds) * rate - screen.counted) / rate)
        total = len(OPENING) + int(rate * 0.05 / 2) * 2 * int(seconds / 0.05)
        ended = time.monotonic()
        screen.until(rf"{total:,} frames(?! +analysed)")
        catch_up_s = time.monotonic() - ended
        used = (screen.cpu_s() - cpu) / (seconds + catch_up_s)
    finally:
        screen.close()
        made.close()
    return {
        "rate": rate,
        "seconds": seconds,
        "lag_ms": percentiles(lags),
        "catch_up_s": catch_up_s,
        "cores": used,
        "writer_late_s": late[0],
    }


def followed(seconds: int, place: str) -> dict[str, Any]:
    """Follow a capture that grows at an ordinary rate, and then gets single rows."""
    path = Path(place, "followed.mcpcap")
    made = CaptureFile(path)
    made.append(opening())
    first, number, began = 1 + len(OPENING), 0, (0.0, 0.0, 0.0, 0)
    screen = Screen(path, place, FOLLOWED_SIZE)
    try:
        screen.until("following")
        start, step = time.monotonic(), 0.05
        while True:
            ahead = start + number / (FOLLOWED_RATE / 2) - time.monotonic()
            if ahead > 0:
                screen.hear(ahead)
                continue
            count = int(FOLLOWED_RATE / 2 * step)
            made.append(block(first + 2 * number, number, count, int(number / (FOLLOWED_RATE / 2) * 1e9)))
            number += count
            if number == FOLLOWED_RATE // 2:  # the first second fills the screen
                began = time.monotonic(), screen.cpu_s(), screen.worker_cpu_s(), screen.received_bytes
            if number >= FOLLOWED_RATE / 2 * (seconds + 1):
                break
        passed_s = time.monotonic() - began[0]
        figures = {
            "cores": (screen.cpu_s() - began[1]) / passed_s,
            "worker_cores": (screen.worker_cpu_s() - began[2]) / passed_s,
            "kilobytes_per_s": (screen.received_bytes - began[3]) / passed_s / 1000,
        }
        screen.until(rf"{len(OPENING) + 2 * number:,} frames(?! +analysed)")
        return figures | {"single_ms": percentiles(list(single_rows(screen, made, first + 2 * number)))}
    finally:
        screen.close()
        made.close()


def single_rows(screen: Screen, made: CaptureFile, seq: int) -> Iterator[float]:
    """Append rows one by one, at times that do not keep step with any clock; yields how long each takes to appear."""
    for number in range(SINGLE_ROWS):
        end = time.monotonic() + 0.7 + 0.037 * number
        while time.monotonic() < end:
            screen.hear(0.01)
        # No two rows have the same letter in the same place, so that all of it is drawn.
        name = chr(ord("a") + number) * 12
        call = b'{"jsonrpc":"2.0","id":"s%d","method":"tools/call","params":{"name":"%b"}}' % (number, name.encode())
        screen.text()
        start = time.monotonic()
        made.append(seal(seq + number, int(3600e9), "frame", lines_members("c2s", [call])[0]))
        screen.until(name)
        yield time.monotonic() - start


def cpu_s(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """Peak MiB of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) / 1024


def percentiles(values: list[float]) -> dict[str, float]:
    """Percentiles of seconds, in ms."""
    ordered = sorted(values)
    return {
        "p50": 1000 * statistics.median(ordered),
        "p95": 1000 * ordered[int(len(ordered) * 0.95)],
        "max": 1000 * ordered[-1],
    }


def rows(found: dict[str, dict[str, Any]]) -> list[Row]:
    """The table, with its budgets."""
    rest, live, found_s, followed = found["at_rest"], found["live"], found["filtered"], found["followed"]
    return [
        _row("first screen", "s", rest["first_screen_s"], 2),
        _row("  all of it understood", "s", rest["understood_s"]),
        *_key_rows("key, while it is read", rest["key_busy_ms"], rest["wait_busy_ms"]),
        *_key_rows("key", rest["key_ms"], rest["wait_ms"]),
        _row("memory", "MiB", rest["peak_mib"], 300),
        _row("  of the worker", "MiB", rest["worker_mib"], 300),
        *(
            row
            for text, times in found_s.items()
            for row in (
                _row(f"key → rows, {text}", "ms", 1000 * times["first_s"], 100),
                _row("  all rows", "ms", 1000 * times["whole_s"]),
            )
        ),
        _row("live, behind by, p50", "ms", live["lag_ms"]["p50"]),
        _row("live, behind by, p95", "ms", live["lag_ms"]["p95"]),
        _row("live, even after its end", "s", live["catch_up_s"]),
        _row("  processors for that", "", live["cores"]),
        _row(f"following {FOLLOWED_RATE} frames a second, processors", "", followed["cores"], 0.12),
        _row("  of the worker", "", followed["worker_cores"]),
        _row("  to the terminal, a second", "kB", followed["kilobytes_per_s"], 120),
        _row("a single row appears after, p50", "ms", followed["single_ms"]["p50"], 50),
        _row("a single row appears after, p95", "ms", followed["single_ms"]["p95"], 100),
    ]


def _key_rows(what: str, key: dict[str, float], wait: dict[str, float]) -> list[Row]:
    """Key to paint: within 50 ms, or within 1.5 times the painting thread's wait for a processor."""
    return [
        _row(f"{what}, p50", "ms", key["p50"], max(50.0, 1.5 * wait["p50"])),
        _row(f"{what}, p95", "ms", key["p95"], max(50.0, 1.5 * wait["p95"])),
        _row("  of that, waiting for a processor, p95", "ms", wait["p95"]),
    ]


def _row(what: str, unit: str, value: float, budget: float | None = None) -> Row:
    return Row(what, unit, {"tui": value}, math.nan if budget is None else value, unit, budget)


def main(argv: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tui", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_000_000, help="of the capture that is looked through")
    parser.add_argument("--rate", type=int, default=10_000, help="frames a second of the one that grows")
    parser.add_argument("--seconds", type=int, default=10, help="how long it grows")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every figure")
    options = parser.parse_args(argv)
    use_orjson()
    with tempfile.TemporaryDirectory() as place:
        found = {
            "at_rest": at_rest(options.frames, place),
            "filtered": filtered(FILTERED, place),
            "live": live(options.rate, options.seconds, place),
            "followed": followed(options.seconds, place),
        }
    made = rows(found)
    if options.json:
        shown = [{**row._asdict(), "value": None if math.isnan(row.value) else row.value} for row in made]
        print(json.dumps({"rows": shown, "samples": found}, indent=1, ensure_ascii=False))
    else:
        print(f"{table(made)}\n\n{options.frames:,} frames; live at {options.rate:,} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
