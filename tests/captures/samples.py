"""Shared by the tests of this folder: captures made in memory, and disks that fail."""

import errno
import os
import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from captures.cutting import FrameCutter, LineCutter
from captures.damage import Damage
from captures.envelope import judge
from captures.file import CaptureFile
from captures.frame import Frame
from captures.reader import assembled_items
from captures.record import Record, frame_members, members, part_members, seal, stderr_members
from captures.verdict import UNJUDGED, Direction
from tests.harness import DEADLINE_S

PAGE = Path(__file__).parents[2] / "captures/FORMAT.md"
CAPTURE = "0d3f6a5e9b1c4d7280aa55ff13579bdf"
WALL_NS = 1_795_000_000_000_000_000
STRANGER = 4321
"""An id that belongs to no user or group."""

REQUEST = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"n":%d}}}'
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}'


def header(segment: int = 1, **more: object) -> bytes:
    """The members of a header, as encoded inside its line."""
    fixed = {"format": 1, "capture": CAPTURE, "segment": segment, "transport": "stdio", "name": "files"}
    rest = {"argv": ["server"], "cwd": "/", "env": {"HOME": "hmac:0123456789abcdef"}, "observed_start": True}
    return members(**{**fixed, **rest, "wall_ns": WALL_NS, "mono_ns": 5, "tool": "mcpproxy 0", **more})


def frame(direction: Direction, raw: bytes, **how: Any) -> bytes:
    """The members of a frame, as encoded inside its line."""
    return frame_members(direction, raw, judge(raw, direction, whole=how.get("whole", True)), **how)


def lines(middles: Iterable[tuple[str, bytes]], first: int = 0, step_ns: int = 1_000_000) -> list[bytes]:
    """Lines of records with rising numbers and stamps."""
    return [seal(first + n, n * step_ns, rec, middle) for n, (rec, middle) in enumerate(middles)]


def conversation(frames: int, rng: random.Random, size: int = 60) -> Iterator[tuple[str, bytes]]:
    """A header, `frames` frames back and forth of about `size` bytes of text, and a close."""
    yield "header", header()
    for n in range(frames):
        text = rng.choice([b"plain ", "größer ".encode(), b"tab\\t ", "𝄞 ".encode()]) * (size // 6)
        call, result = REQUEST % (n, rng.randrange(10**6)), RESULT % (n, text)
        yield "frame", frame("c2s", call) if n % 2 == 0 else frame("s2c", result)
    yield "close", members(ending="server", status=0, totals={})


def every_type() -> list[bytes]:
    """Lines of a small capture with every record type, and every encoding of bytes."""
    middles = [
        ("header", header()),
        ("process", members(event="spawned", pid=4711, start=99)),
        ("frame", frame("c2s", REQUEST % (1, 1))),
        ("frame", frame("s2c", RESULT % (1, "größer".encode()), delim=b"\r\n")),
        ("stall", members(dir="s2c", of=3, waited_ns=2_000_000, cause="receiver")),
        ("frame", frame("s2c", b"\xff\xfe no text")),
        ("stderr", stderr_members(b"warning: \xe2\x82\xac", skipped=7)),
        ("part", part_members("s2c", 1, b'{"jsonrpc":"2.0","id":2,')),
        ("frame", frame("c2s", b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')),
        ("part", part_members("s2c", 2, b'"result":{}}')),
        ("frame", frame_members("s2c", b"", UNJUDGED, parts=(2, 36))),
        ("gap", members(first=11, last=13, from_ns=1, to_ns=2, lost=lost(c2s=(1, 40), other=(2, 0)), reason="ENOSPC")),
        ("exchange", members(conn=1, exchange=1, stage="request", request={"method": "POST", "headers": []})),
        ("stream", members(conn=1, exchange=1, dir="s2c", event="opened")),
        ("x_later", members(x_what={"seq": 5, "deep": [None, True, 1.5]})),
        ("signal", members(event="received", name="SIGTERM", origin="process")),
        ("eof", members(dir="c2s", by="sender", bytes=99)),
        ("frame", frame("s2c", b'{"jsonrpc":"2.0","id":3,"res', whole=False, delim=b"")),
        ("close", members(ending="server", status=0, totals={})),
    ]
    numbers = [*range(11), *range(14, 22)]
    return [seal(seq, seq * 1000, rec, middle) for seq, (rec, middle) in zip(numbers, middles, strict=True)]


def lost(
    c2s: tuple[int, int] = (0, 0), s2c: tuple[int, int] = (0, 0), other: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    """The `lost` member of a gap."""
    sides = {name: {"frames": count, "bytes": size} for name, (count, size) in (("c2s", c2s), ("s2c", s2c))}
    return {**sides, "other": {"records": other[0], "bytes": other[1]}}


def tables() -> dict[str, list[str]]:
    """The record types of FORMAT.md, each with the members of its table, in order."""
    found: dict[str, list[str]] = {}
    for section in PAGE.read_text("utf-8").split("\n### `")[1:]:
        rec, _, text = section.partition("`")
        rows = [row.split("|")[1] for row in re.split("\n##+ ", text)[0].splitlines() if row.startswith("| `")]
        found[rec] = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    return found


SMALL: Final = 1 << 15


def cut(data: bytes, step: int = 1 << 20) -> list[Record | Damage]:
    """The items of a file that holds `data`, read in chunks of `step` bytes; also checks the frames of small files."""
    items = _fed(LineCutter(Path("x.mcpcap")), data, step)
    if len(data) <= SMALL:
        at_once = _fed(FrameCutter(Path("x.mcpcap")), data, step)
        assert list(assembled_items(at_once)) == list(assembled_items(items))
    return items


def _fed(cutter: Any, data: bytes, step: int) -> list[Any]:
    items = [item for at in range(0, len(data), step) for item in cutter.feed(data[at : at + step])]
    return [*items, *cutter.finish()]


def whole_records(data: bytes) -> list[Record]:
    """The records of a file that holds `data`, without its damage."""
    return [item for item in cut(data) if isinstance(item, Record)]


def assembled(items: Iterable[Record | Damage]) -> list[Frame]:
    """The frames of these items, assembled."""
    return [item for item in assembled_items(items) if isinstance(item, Frame)]


def in_pieces(direction: Direction, raw: bytes, piece: int, **how: Any) -> list[tuple[str, bytes]]:
    """The records of a giant frame with the content `raw`."""
    cuts = [raw[at : at + piece] for at in range(0, len(raw), piece)]
    parts = [("part", part_members(direction, n, data)) for n, data in enumerate(cuts, 1)]
    return [*parts, ("frame", frame_members(direction, b"", UNJUDGED, parts=(len(cuts), len(raw)), **how))]


Plan: TypeAlias = Callable[[int], "int | threading.Event | None"]
"""Maps the number of a call to what happens in it."""


class Disk:
    """Replaces `os.write`: does what its plan returns for a call, and otherwise writes.

    A plan returns an errno (nothing is written), a negative number (that many bytes fewer than requested are written),
    or an Event (the call hangs until it is set). Calls are counted from 1 and include those that write the reserve of
    64 KiB.
    """

    def __init__(self, plan: Plan = lambda _: None) -> None:
        self.plan = plan
        self.calls = 0
        self.hanging = threading.Event()
        """Set once a call hangs."""
        self._lock = threading.Lock()

    def __call__(self, fd: int, data: bytes) -> int:
        with self._lock:
            self.calls += 1
            what = self.plan(self.calls)
        if isinstance(what, threading.Event):
            self.hanging.set()
            assert what.wait(DEADLINE_S)
        elif what is not None and what > 0:
            raise OSError(what, os.strerror(what))
        elif what is not None:
            return os.write(fd, data[: max(1, len(data) + what)])
        return os.write(fd, data)


def at(call: int, what: "int | threading.Event") -> Plan:
    """A plan that affects one call."""
    return lambda number: what if number == call else None


class Full:
    """A plan of a full disk: while `full`, writes fail with `code`, unless `file` has given up its reserve."""

    def __init__(self, code: int = errno.ENOSPC) -> None:
        self.full = False
        self.code = code
        self.file: CaptureFile | None = None

    def __call__(self, number: int) -> int | None:
        has_room = self.file is not None and self.file._reserve is None
        return self.code if self.full and not has_room else None


def give_to_strangers(path: Path, mode: int) -> None:
    """Give a file or directory a mode and, if possible, a group that has other members."""
    if os.getuid() == 0:
        os.chown(path, -1, STRANGER)
    elif mode & 0o070 and not mode & 0o007:
        pytest.skip("only root can give a file to a group at will")
    path.chmod(mode)
