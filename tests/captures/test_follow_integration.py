"""A capture that is still growing yields the same items as the finished capture."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from captures import follow as follow_module
from captures.damage import Damage
from captures.errors import NewerFormat, NotACapture
from captures.file import CaptureFile
from captures.follow import follow
from captures.reader import Capture
from captures.record import Record, members, seal
from tests.captures.samples import every_type, frame, header, lines

NAME = "x.mcpcap"
FRAME = ("frame", frame("c2s", b"{}"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "POLL_S", 0.001)


def followed(path: Path, *steps: Callable[[], object]) -> list[Record | Damage]:
    """All items of a capture; whenever there is nothing to read, the next step is run."""
    left = list(steps)

    async def collect() -> list[Record | Damage]:
        items = []
        async for item in follow(path):
            if item is not None:
                items.append(item)
            elif left:
                left.pop(0)()
        return items

    items = asyncio.run(asyncio.wait_for(collect(), 60))
    assert not left
    return items


def test_a_capture_at_rest_is_read_once(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"".join(every_type())[:-3])
    assert followed(tmp_path / NAME) == list(Capture(tmp_path / NAME))


def test_what_comes_is_yielded_until_the_recorder_lets_go(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / NAME)
    head, *rest = every_type()
    made.append(head)
    steps = [lambda line=line: made.append(line) for line in rest]
    items = followed(tmp_path / NAME, *steps, made.close)
    assert items == list(Capture(tmp_path / NAME))


def test_a_line_that_comes_in_pieces_is_one_record(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / NAME)
    data = b"".join(every_type())
    made.append(data[:500])
    cuts = [data[at : at + 37] for at in range(500, len(data), 37)]
    items = followed(tmp_path / NAME, *[lambda piece=piece: os.write(made.fd, piece) for piece in cuts], made.close)
    assert [item.line for item in items if isinstance(item, Record)] == data.split(b"\n")[:-1]
    assert not [item for item in items if isinstance(item, Damage)]


def test_a_torn_tail_is_told_when_nobody_will_end_it(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / NAME)
    made.append(every_type()[0])
    items = followed(tmp_path / NAME, lambda: os.write(made.fd, b'{"seq":1,"rec"'), made.close)
    assert [item.cause for item in items if isinstance(item, Damage)] == ["torn"]


def growing(folder: Path, ring_bytes: int = 1 << 40) -> tuple[CaptureFile, Callable[[], None]]:
    """A capture, and a function that adds a frame and begins the next segment."""
    made = CaptureFile(folder / NAME, segment_bytes=1, ring_bytes=ring_bytes)
    made.append(seal(0, 0, "header", header()))
    numbers = iter(range(1, 1000))

    def go_on() -> None:
        made.append(seal(next(numbers), 0, *FRAME))
        old = made.begin_next_segment(seal(next(numbers), 0, "close", members(ending="segment")))
        made.append(seal(next(numbers), 0, "header", header(made.segment)))
        os.close(old)

    return made, go_on


def test_it_goes_on_into_the_next_segments(tmp_path: Path) -> None:
    made, go_on = growing(tmp_path)
    items = followed(tmp_path / NAME, go_on, go_on, lambda: (go_on(), go_on()), made.close)
    assert [item.seq for item in items if isinstance(item, Record)] == list(range(13))


def test_it_goes_on_behind_segments_that_the_ring_has_taken(tmp_path: Path) -> None:
    made, go_on = growing(tmp_path, ring_bytes=1500)

    def far() -> None:
        for _ in range(9):
            go_on()

    items = followed(tmp_path / NAME, far, made.close)
    numbers = [item.seq for item in items if isinstance(item, Record)]
    assert numbers[:3] == [0, 1, 2]
    assert numbers[-1] == 27
    assert len(numbers) < 28


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no capture\n")
    with pytest.raises(NotACapture):
        followed(tmp_path / NAME)
    (tmp_path / NAME).write_bytes(b"".join(lines([("header", header(format=2))])))
    with pytest.raises(NewerFormat):
        followed(tmp_path / NAME)
