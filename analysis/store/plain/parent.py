"""Loads the plain part of a capture: the lines are proved here, while the child reads and pairs them.

The result is a database file with the rows of all frames and requests behind the opening, except the odd frames, and
what is left for `analysis.store.load` to add. On any doubt there is no result, and the file is to be thrown away.
"""

import os
import re
import select
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from analysis.child_process import PythonChild, usable_processors
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.exchanges import Exchanges
from analysis.store.plain.lines import Lines, most_odd
from analysis.store.plain.odd import OddFrame, facts, judged, key
from analysis.store.plain.opening import Opening, opening_of
from analysis.store.plain.pipes import write
from analysis.store.values import LARGEST, text, wall
from captures.file import is_live
from captures.reader import Capture
from captures.record import Record

SMALLEST: Final = 3 << 20
"""Bytes of a capture. A smaller one is loaded by the fold before the child has started."""
LEAST_MEMORY: Final = 256_000_000
"""Bytes that DuckDB needs: it reads lines into buffers of 32 MiB, and several at a time."""
THREADS: Final = 2
"""More do not help: the parent's pass over the lines takes as long as the rest then does."""
COPY: Final = "grown-so-far.mcpcap"
"""The name of a copy of a segment that may still grow."""
_PIECE: Final = 1 << 16
_LONGEST_ANSWER: Final = 64 << 20
_SECONDS: Final = 60
_BYTES_A_SECOND: Final = 2 << 20
"""What the child may take at most: a tenth of what it does on a slow machine."""
_ROWS_TO_CAPTURE: Final = 8
"""The most bytes of the database to each of the capture."""


class Plain(NamedTuple):
    """What the child has loaded, and what it has left."""

    opening: Opening
    lines: Lines
    odd: list[OddFrame]
    links: dict[int, tuple[int, str | None]]
    """For odd frames that are requests, or answer some: the request, and the name in it."""
    listings: list[int]
    """The frames that hold a list of tools, each different list once."""
    messages: int
    requests: int
    latest_ns: int
    last_ns: int
    """The stamp of the last frame; `latest_ns` is the largest one."""
    frames: int
    bytes: int
    is_growing: bool
    """Whether more was being recorded when it was read."""

    def others(self) -> Iterator[Record]:
        """The records behind the opening that are no frames."""
        return self.lines.others()

    @property
    def exchanges(self) -> Exchanges | None:
        """What is known about HTTP exchanges."""
        return self.opening.exchanges

    def listed(self) -> Iterator[OddFrame]:
        """The frames that hold lists of tools, in order."""
        odd = {each.frame.seq: each for each in self.odd}
        plain = self.lines.frames_of(n for n in self.listings if n not in odd)
        read = {each.frame.seq: each for each in judged(plain, is_http=self.opening.exchanges is not None)}
        for number in self.listings:
            yield odd.get(number) or read[number]


def load_plain(
    path: Path,
    database: Path,
    id_: str,
    *,
    options: str,
    memory: int,
    progress: Callable[[int], None] | None = None,
) -> Plain:
    """Make a database file with the rows of the plain part of a capture.

    Args:
        path: the capture; a growing one is read up to its present end.
        database: the file to make. The directory beside it takes what does not fit into memory, and a copy of what may
            still grow, which is needed as long as the answer.
        id_: the value of the column `capture` in its rows.
        options: how to attach the file.
        memory: bytes that DuckDB may hold.
        progress: called with the number of bytes read.

    Raises:
        Doubt: only the fold loads it exactly.
        CaptureError: it cannot be read.
    """
    capture = Capture(path)
    if not capture.size >= SMALLEST:
        raise Doubt("small")
    if memory < LEAST_MEMORY:
        raise Doubt("little memory")
    opening = opening_of(capture)
    is_growing = is_live(capture.segments[-1])
    segments = capture.segments
    if is_growing:
        segments = [*segments[:-1], _copied(segments[-1], database.parent / COPY)]
    processor_s = _SECONDS + capture.size // _BYTES_A_SECOND
    setup = {
        "segments": [_digits(segment) for segment in segments],
        "database": _digits(database),
        "spilled": _digits(database.parent / "spilled"),
        "id": id_,
        "options": options,
        "wall": wall(capture.header.members.get("wall_ns")),
        "first": opening.first,
        "revision": text(opening.revision),
        "server_revision": text(opening.server_revision),
        "server_era": opening.server_era,
        "is_http": opening.exchanges is not None,
        "far": 0 if opening.exchanges is None else opening.exchanges.far,
        "used": None if opening.exchanges is None or opening.exchanges.used is None else key(opening.exchanges.used),
        "memory": memory,
        "threads": min(THREADS, usable_processors()),
        "processor_s": processor_s,
        "largest": (64 << 20) + capture.size * _ROWS_TO_CAPTURE,
    }
    try:
        child = PythonChild("analysis.store.plain.child", bare=True)
    except OSError:
        raise Doubt("the system starts no process") from None
    try:
        lines = Lines(capture, segments, opening)
        made = _loaded(_Talk(child, processor_s), setup, lines, opening, progress)
        return made._replace(is_growing=is_growing)
    finally:
        child.close()


def _loaded(
    talk: "_Talk", setup: dict[str, Any], lines: Lines, opening: Opening, progress: Callable[[int], None] | None
) -> Plain:
    talk.say(setup)
    lines.read(progress)
    exchanges = opening.exchanges
    odd = judged(lines.odd, is_http=exchanges is not None)
    most = most_odd(lines.frames)
    talk.hear()
    talk.say({"odd": [each.frame.seq for each in odd], "most": most, "starts": [*lines.firsts, lines.end]})
    answer = talk.hear()
    if (answer.get("frames"), answer.get("escaped")) != (lines.frames, lines.text_bytes):
        raise Doubt("lines that are not spelt as ours")
    left = _numbers(answer.get("left"))
    if len(left) > most:
        raise Doubt("many odd frames")
    odd = sorted([*odd, *judged(lines.frames_of(left), is_http=exchanges is not None)], key=lambda each: each.frame.seq)
    talk.say(
        {
            "facts": [facts(*each) for each in odd],
            "stalls": opening.stalls.rows,
            "failed": [] if exchanges is None else exchanges.failed,
            "late": [] if exchanges is None else exchanges.late,
            "open": [] if exchanges is None else exchanges.unfinished,
            "gone": lines.gone,
        }
    )
    answer = talk.hear()
    listings = _numbers(answer.get("listings"))
    messages, requests, latest_ns, last_ns, frames, size = (_count(answer.get(name)) for name in _COUNTS)
    if frames + len(odd) != messages or frames != lines.frames - len(left):
        raise Doubt("rows that are missing")
    links = _links(answer.get("links"))
    for told in () if exchanges is None else exchanges.told():
        talk.say(told)
    talk.say({"end": True})
    talk.hear()
    return Plain(opening, lines, odd, links, listings, messages, requests, latest_ns, last_ns, frames, size, False)


def _copied(segment: Path, copy: Path) -> Path:
    """A copy of the whole records of a segment that may still grow: all who read it must see the same end."""
    shutil.copyfile(segment, copy)
    with copy.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _PIECE)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        file.truncate(end)
    return copy


_PLAIN_WORDS: Final = re.compile(r"[A-Za-z ]{1,60}")
_COUNTS: Final = ("messages", "requests", "latest_ns", "last_ns", "frames", "bytes")


def _numbers(value: object) -> list[int]:
    """A list of numbers of frames, in order."""
    if value is None:
        raise Doubt("many odd frames")
    if not isinstance(value, list) or any(type(number) is not int or number < 0 for number in value):
        raise Doubt("an answer without sense")
    return sorted(set(value))


def _links(value: object) -> dict[int, tuple[int, str | None]]:
    """The requests of odd frames, and the names in them."""
    try:
        assert isinstance(value, list)
        return {int(seq): (int(request), None if name is None else str(name)) for seq, request, name in value}
    except (TypeError, ValueError, AssertionError):
        raise Doubt("an answer without sense") from None


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise Doubt("an answer without sense")
    return value


class _Talk:
    """The parent's end of the conversation. The child is not trusted to say what makes sense."""

    def __init__(self, child: PythonChild, processor_s: int) -> None:
        self._child = child
        self._until_s = time.monotonic() + 2 * processor_s

    def say(self, message: dict[str, Any]) -> None:
        try:
            write(self._child.stdin, orjson.dumps(message))
        except OSError:
            raise Doubt("the child has died") from None

    def hear(self) -> dict[str, Any]:
        size = int.from_bytes(self._take(4))
        if size > _LONGEST_ANSWER:
            raise Doubt("an answer that is too long")
        try:
            message = orjson.loads(self._take(size))
        except orjson.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            raise Doubt("an answer without sense")
        if "failed" in message:
            raise Doubt(why if _PLAIN_WORDS.fullmatch(why := str(message["failed"])) else "an answer without sense")
        return message

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            left_s = self._until_s - time.monotonic()
            if left_s <= 0 or not select.select([self._child.stdout], [], [], left_s)[0]:
                raise Doubt("the child takes too long")
            piece = os.read(self._child.stdout, min(1 << 18, size - len(taken)))
            if not piece:
                raise Doubt("the child has died")
            taken += piece
        return bytes(taken)


def _digits(path: Path) -> str:
    return os.fsencode(os.path.abspath(path)).hex()
