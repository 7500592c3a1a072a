"""The index returns the same items as the reader, in the same order, for finished and for growing files."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from captures.damage import Damage
from captures.errors import NewerFormat, NotACapture
from captures.file import CaptureFile
from captures.frame import Frame
from captures.index import ENTRY_KINDS, Index
from captures.reader import Capture, read_frames
from captures.record import LINE_START, Record, members, part_members, seal
from captures.tail import Tail
from tests.captures.samples import conversation, every_type, frame, header, in_pieces, lines, lost

NAME = "x.mcpcap"
EVERY = every_type()
PART = part_members("s2c", 1, b"one ")


def wanted(path: Path) -> list[Frame | Record | Damage]:
    return list(map(alone, read_frames(Capture(path))))


def alone(item: Frame | Record | Damage) -> Frame | Record | Damage:
    """An item without `skipped`, which depends on the items before it and is only known to the sequential reader."""
    if isinstance(item, Frame):
        return replace(item, skipped=0)
    return item if isinstance(item, Damage) else item._replace(skipped=0)


def grown(path: Path, step: int = 4096) -> Index:
    index = Index(path)
    while not index.has_ended:
        index.grow(step)
    return index


def given_back(index: Index) -> list[Frame | Record | Damage | None]:
    found = [index.read_item(number) for number in range(len(index))]
    return [item and alone(item) for item in found]


def write(folder: Path, data: bytes, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path


def test_entries_are_what_the_reader_yields(tmp_path: Path) -> None:
    path = write(tmp_path, b"".join(EVERY))
    with grown(path) as index:
        assert given_back(index) == wanted(path)
        for number in range(len(index)):
            item, entry = index.read_item(number), index.entry(number)
            assert isinstance(item, Frame | Record)
            assert (entry.seq, entry.t_ns) == (item.seq, item.t_ns)
            assert entry.kind in ENTRY_KINDS
            if isinstance(item, Frame):
                assert (entry.dir, entry.size) == (item.dir, len(item.raw))
                assert index.is_frame(number)
            assert index.entry_of_seq(item.seq) == number
            assert index.entry_at_time(item.t_ns) == number
        assert index.entry_of_seq(10**9) is None
        assert index.frame_count == sum(isinstance(item, Frame) for item in wanted(path))


MIDDLES = st.lists(
    st.sampled_from(
        [
            ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')),
            ("frame", frame("s2c", "größer".encode(), delim=b"")),
            ("frame", frame("s2c", b"\xff\xfe")),
            ("frame", members(dir="up", raw="x")),
            ("frame", members(dir=["c2s"], kind={}, raw=5)),
            ("part", PART),
            ("part", part_members("s2c", 2, b"two")),
            ("part", part_members("c2s", 1, b"other")),
            ("part", members(dir=None, part=1, raw="nowhere")),
            ("part", members(dir="s2c", part=1, raw_b64="!")),
            *in_pieces("s2c", b"one two", 4),
            ("gap", members(first=3, last=3, lost=lost(s2c=(1, 9)), reason="ENOSPC")),
            ("stderr", members(raw="oops")),
            ("later", members(what={"seq": 1})),
        ]
    ),
    max_size=14,
)


@given(middles=MIDDLES, step=st.integers(1, 300), cut=st.integers(0, 40))
def test_any_records_give_the_same_items(
    tmp_path_factory: pytest.TempPathFactory, middles: list[tuple[str, bytes]], step: int, cut: int
) -> None:
    data = b"".join(lines([("header", header()), *middles]))
    path = write(tmp_path_factory.mktemp("any"), data[: len(data) - cut] if len(data) - cut > 400 else data)
    with grown(path, step) as index:
        assert given_back(index) == wanted(path)


@given(
    pieces=st.lists(
        st.sampled_from([*EVERY, b"\n", LINE_START, b'{"se', b"\0" * 9]) | st.binary(max_size=9), max_size=9
    ),
    step=st.integers(1, 500),
)
def test_any_bytes_give_the_same_items(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], step: int
) -> None:
    path = write(tmp_path_factory.mktemp("any"), EVERY[0] + b"".join(pieces))
    with grown(path, step) as index:
        assert given_back(index) == wanted(path)


def test_numbers_out_of_order_are_found(tmp_path: Path) -> None:
    numbers = (0, 7, 3, 5)
    path = write(tmp_path, b"".join([seal(n, n, "header" if not n else "stderr", header()) for n in numbers]))
    with grown(path) as index:
        assert [index.entry_of_seq(n) for n in (*numbers, 4)] == [0, 1, 2, 3, None]


def test_segments_are_one_list(tmp_path: Path) -> None:
    for number, first in ((1, 0), (2, 2), (4, 6)):
        middles = [("header", header(number)), ("frame", frame("c2s", b"%d" % number))]
        write(tmp_path, b"".join(lines(middles, first)), "x.mcpcap" if number == 1 else f"x.{number}.mcpcap")
    write(tmp_path, b"".join(lines([("header", header(5, capture="f" * 32))], 8)), "x.5.mcpcap")
    path = tmp_path / NAME
    with grown(path, 50) as index:
        assert given_back(index) == wanted(path)
        assert index.kind(len(index) - 1) == "damage"
        (tmp_path / "x.2.mcpcap").unlink()
        # The index keeps the file open, as the ring of a recorder may delete segments that are being viewed.
        assert isinstance(index.read_item(3), Frame)


def test_a_giant_frame_over_two_segments_is_found(tmp_path: Path) -> None:
    one, two, whole = in_pieces("s2c", b"abcdefgh", 4)
    write(tmp_path, b"".join(lines([("header", header()), one])))
    write(tmp_path, b"".join(lines([("header", header(2)), two, whole], 2)), "x.2.mcpcap")
    with grown(tmp_path / NAME) as index:
        found = index.read_item(2)
        assert isinstance(found, Frame)
        assert (found.raw, found.whole) == (b"abcdefgh", True)
        first = index.read_first_part(2)
        assert first is not None
        assert first.members["raw"] == "abcd"
        assert [*(index.giant_frame_parts(2) or ())] == [b"abcd", b"efgh"]
        assert index.giant_frame_parts(0) is None
        assert given_back(index) == wanted(tmp_path / NAME)


def test_an_index_grows_with_its_file(tmp_path: Path) -> None:
    rng = random.Random(3)
    head, *rest = lines(conversation(60, rng))
    made = CaptureFile(tmp_path / NAME)
    made.append(head)
    with Index(tmp_path / NAME) as index:
        for count, line in enumerate(rest, 2):
            while index.grow():
                pass
            assert len(index) == count - 1
            assert not index.has_ended
            made.append(line)
        made.close()
        while not index.has_ended:
            index.grow()
        assert given_back(index) == wanted(tmp_path / NAME)
    assert not index.grow()


@pytest.mark.parametrize("in_records", [False, True])
def test_a_tail_gives_what_the_reader_gives(tmp_path: Path, in_records: bool) -> None:
    path = write(tmp_path, b"".join(EVERY)[:-7])
    with Tail(path, in_records=in_records) as tail:
        items = []
        while not tail.has_ended:
            items += tail.step(100)
        assert items == list(Capture(path) if in_records else Capture(path).frames())
        assert tail.step() == []


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACapture):
        Index(write(tmp_path, b"nothing"))
    with pytest.raises(NewerFormat):
        Index(write(tmp_path, b"".join(lines([("header", header(format=99))]))))


def test_an_entry_takes_some_thirty_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, b"".join(lines(conversation(5000, random.Random(4)))))
    with grown(path) as index:
        assert index.nbytes / len(index) < 36
