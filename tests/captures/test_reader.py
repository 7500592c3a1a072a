"""In any damaged file, the reader reads all whole records and reports everything else as damage."""

import os
import random
import resource
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import cutting
from captures.damage import Damage
from captures.errors import NewerFormat, NotACapture, NothingRecorded
from captures.file import create, unlock_and_close
from captures.frame import Frame
from captures.frames import PIECE_OVERHEAD_BYTES, FrameAssembler
from captures.reader import CHUNK_BYTES, Capture, read_frames
from captures.record import LINE_START, MAX_LINE_BYTES, Record, frame_members, members, part_members, seal
from captures.verdict import UNJUDGED
from tests.captures.samples import (
    CAPTURE,
    assembled,
    conversation,
    cut,
    every_type,
    frame,
    header,
    in_pieces,
    lines,
    lost,
    whole_records,
)
from tests.examples import examples

SMALL = b"".join(every_type())


def large(frames: int, seed: int = 5) -> list[bytes]:
    return lines(conversation(frames, random.Random(seed)))


def check_bytes(data: bytes, items: list[Record | Damage]) -> None:
    """Check that each byte belongs to the line of one record or to one damage, in order."""
    at = 0
    for item in items:
        assert item.offset == at, (item, at)
        if isinstance(item, Record):
            assert data.startswith(item.line, at)
            at += len(item.line)
            at += data[at : at + 1] == b"\n"
        else:
            at += item.size
    assert at == len(data)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Limits lines to 16 KiB instead of 8 MiB."""
    monkeypatch.setattr(cutting, "MAX_LINE_BYTES", 16 << 10)
    return 16 << 10


class TestCutting:
    """The cutter takes chunks and yields items."""

    PIECES = st.lists(
        st.sampled_from([*every_type()[:4], b"\n", b"\n\n", LINE_START, b'{"se', b'q":', b',"crc":"', b"\0" * 9])
        | st.binary(max_size=9),
        max_size=12,
    ).map(b"".join)

    @given(PIECES, st.integers(1, 200))
    def test_the_items_are_the_same_however_the_chunks_are_cut(self, data: bytes, step: int) -> None:
        items = cut(data, step)
        assert items == cut(data)
        check_bytes(data, items)

    @given(PIECES)
    def test_neighbouring_damage_is_one(self, data: bytes) -> None:
        items = cut(data)
        for one, two in pairwise(items):
            assert isinstance(one, Record) or isinstance(two, Record) or two.cause == "torn"

    def test_a_whole_capture_has_no_damage(self) -> None:
        for step in (1, 7, 4096, CHUNK_BYTES):
            assert [item.line for item in cut(SMALL, step) if isinstance(item, Record)] == SMALL.split(b"\n")[:-1]
            assert not [item for item in cut(SMALL, step) if isinstance(item, Damage)]

    def test_a_whole_record_without_its_newline_is_read(self) -> None:
        *_, record, torn = cut(SMALL[:-1])
        assert isinstance(record, Record)
        assert torn == Damage(Path("x.mcpcap"), len(SMALL) - 1, 0, "torn")
        assert str(torn) == f"x.mcpcap: the last record, up to offset {len(SMALL) - 1}, has no newline"


class TestTruncation:
    """If a file is cut anywhere, its whole records are read, and the tail is reported as torn."""

    def check(self, whole: list[bytes], data: bytes) -> None:
        items = cut(data)
        records = [item for item in items if isinstance(item, Record)]
        size, expected = 0, 0
        for line in whole:
            size += len(line)
            expected += size - 1 <= len(data)
        assert [item.line for item in records] == [line[:-1] for line in whole[:expected]]
        damage = [item for item in items if isinstance(item, Damage)]
        assert all(item.cause == "torn" for item in damage)
        assert len(damage) == (0 if data.endswith(b"\n") or not data else 1)
        check_bytes(data, items)
        list(read_frames(items))

    def test_at_every_offset_of_a_small_capture(self) -> None:
        for pair in pairwise(every_type()):
            data = b"".join(pair)
            for at in range(len(pair[0]), len(data) + 1):
                self.check(list(pair), data[:at])

    def test_at_random_offsets_of_a_large_capture(self) -> None:
        whole = large(60)
        data = b"".join(whole)
        for at in random.Random(1).sample(range(len(data)), 60):
            self.check(whole, data[:at])

    @pytest.mark.soak
    def test_at_every_offset_of_the_last_64_kib(self, capsys: pytest.CaptureFixture[str]) -> None:
        whole = large(1000)
        data = b"".join(whole)
        count = sum(map(len, whole)) - (64 << 10)
        head, tail, size = [], list(whole), 0
        while size + len(tail[0]) <= count:
            size += len(tail[0])
            head.append(tail.pop(0))
        for at in range(count, len(data)):
            self.check(tail, data[size:at])
        with capsys.disabled():
            print(f"\noffsets tried {len(data) - count}, unreadable 0")


class TestFlippedBits:
    """One flipped bit costs at most one record, and is always noticed."""

    def check(self, whole: list[bytes], data: bytes, bit: int) -> None:
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        items = cut(bytes(damaged))
        found = [item.line for item in items if isinstance(item, Record)]
        missing = [line[:-1] for line in whole if line[:-1] not in set(found)]
        assert len(missing) <= 1, (bit, missing)
        assert len(found) == len(whole) - len(missing)
        assert any(isinstance(item, Damage) for item in items), bit
        check_bytes(bytes(damaged), items)

    def test_in_every_byte_of_a_small_capture(self) -> None:
        rng = random.Random(2)
        for whole, start, end in self.neighbours():
            for byte in range(start, end):
                self.check(whole, b"".join(whole), byte * 8 + rng.randrange(8))

    def test_in_every_bit_of_the_newlines_and_of_what_stands_around_them(self) -> None:
        for whole, _, end in self.neighbours():
            data = b"".join(whole)
            for bit in range((end - 12) * 8, min(end + 8, len(data)) * 8):
                self.check(whole, data, bit)

    def neighbours(self) -> Iterator[tuple[list[bytes], int, int]]:
        """Each line with its neighbours, and the offsets where it begins and ends."""
        every = every_type()
        for number, line in enumerate(every):
            before = every[max(0, number - 1) : number]
            start = len(b"".join(before))
            yield [*before, *every[number : number + 2]], start, start + len(line)

    def test_at_random_places_of_a_large_capture(self) -> None:
        self.flip(60, large(60))

    @pytest.mark.soak
    def test_in_every_bit_of_a_small_capture(self) -> None:
        for bit in range(len(SMALL) * 8):
            self.check(every_type(), SMALL, bit)

    @pytest.mark.soak
    def test_at_10000_random_places(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.flip(10_000, large(300))
        with capsys.disabled():
            print("\nflips 10000, unnoticed 0, costing more than one record 0")

    def flip(self, count: int, whole: list[bytes]) -> None:
        data = b"".join(whole)
        rng = random.Random(3)
        for _ in range(count):
            self.check(whole, data, rng.randrange(len(data) * 8))

    def test_a_newline_between_two_lines_of_the_largest_size(self, short: int) -> None:
        whole = [*every_type()[:1], *(big_line(seq, short * 7 // 8) for seq in (1, 2, 3))]
        data = b"".join(whole)
        bit = (data.index(LINE_START, len(whole[0]) + 1) - 1) * 8
        self.check(whole, data, bit)
        assert [item.seq for item in whole_records(data.replace(b"}\n", b"} "))] == [0, 1, 2, 3]


def big_line(seq: int, size: int) -> bytes:
    """A line of `size` bytes."""
    empty = seal(seq, 0, "x_big", members(fill=""))
    return seal(seq, 0, "x_big", members(fill="x" * (size - len(empty))))


class TestBlocks:
    """A foreign block in the middle costs only the records that it covers or splits."""

    BLOCK = 4096
    PLACES = 9

    def blocks(self, data: bytes) -> Iterator[bytes]:
        rng = random.Random(4)
        yield bytes(self.BLOCK)
        yield rng.randbytes(self.BLOCK)
        yield b"\n" * self.BLOCK
        yield (LINE_START * self.BLOCK)[: self.BLOCK]
        yield (b',"crc":"00000000"}\n' * self.BLOCK)[: self.BLOCK]
        yield data[1000 : 1000 + self.BLOCK]

    def places(self, data: bytes, count: int) -> Iterator[int]:
        rng = random.Random(6)
        for number in range(count):
            place = rng.randrange(len(data) - self.BLOCK)
            yield place if number % 3 else data.index(b"\n", place) + number % 2

    def test_an_inserted_one_costs_the_record_that_it_splits(self) -> None:
        whole = large(60)
        data = b"".join(whole)
        for block in self.blocks(data):
            for at in self.places(data, self.PLACES):
                damaged = data[:at] + block + data[at:]
                items = cut(damaged)
                found = {item.line for item in items if isinstance(item, Record)}
                assert len([line for line in whole if line[:-1] not in found]) <= 1
                assert any(isinstance(item, Damage) for item in items) or block in data
                check_bytes(damaged, items)

    def test_an_overwritten_one_costs_the_records_that_it_touches(self) -> None:
        whole = large(60)
        data = b"".join(whole)
        for block in self.blocks(data):
            for at in self.places(data, self.PLACES):
                damaged = data[:at] + block + data[at + self.BLOCK :]
                end, expected = 0, []
                for line in whole:
                    end += len(line)
                    if end <= at + 1 or end - len(line) >= at + self.BLOCK:
                        expected.append(line[:-1])
                items = cut(damaged)
                found = {item.line for item in items if isinstance(item, Record)}
                assert [line for line in expected if line not in found] == []
                check_bytes(damaged, items)


class TestOverlong:
    """Lines above 8 MiB are damage, and the lines after them are read."""

    def test_the_longest_line_is_read_and_one_byte_more_is_not(self) -> None:
        largest, larger, small = big_line(0, MAX_LINE_BYTES), big_line(1, MAX_LINE_BYTES + 1), every_type()[1]
        assert len(largest) == MAX_LINE_BYTES
        items = cut(largest + larger + small)
        assert [item.rec for item in items if isinstance(item, Record)] == ["x_big", "process"]
        assert items[1] == Damage(Path("x.mcpcap"), MAX_LINE_BYTES, MAX_LINE_BYTES + 1, "overlong")

    @pytest.mark.parametrize("fill", [b"x", b"\0", LINE_START, b',"crc":"', b"{", b'"'])
    def test_the_records_around_one_are_read(self, short: int, fill: bytes) -> None:
        before, after = every_type()[:2]
        junk = (fill * (short * 5 // 2))[: short * 5 // 2]
        for newline, step in product([b"\n", b""], [short >> 3, 1_951]):
            items = cut(before + junk + newline + after, step)
            assert [item.rec for item in items if isinstance(item, Record)] == ["header", "process"], (newline, step)
            assert [item.cause for item in items if isinstance(item, Damage)] == ["overlong"], (newline, step)
            check_bytes(before + junk + newline + after, items)

    def test_a_beginning_that_two_chunks_share_is_found_behind_one(self, short: int) -> None:
        first, second = every_type()[:2]
        chunk = short >> 3
        for less in range(len(LINE_START) + 2):
            junk = b"x" * (short + 3 * chunk - less)
            records = [item for item in cut(junk + first + second, chunk) if isinstance(item, Record)]
            assert [item.seq for item in records] == [0, 1], less


def write(folder: Path, data: bytes, name: str = "x.mcpcap") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


class TestCaptures:
    """Files, headers and segments."""

    @pytest.mark.parametrize("data", [b"\n", b"x", b"\0" * 100_000, b'{"seq":0}\n'])
    def test_a_file_without_a_record_is_no_capture(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(NotACapture, match="no capture records") as refused:
            Capture(write(tmp_path, data))
        assert refused.type is NotACapture

    @pytest.mark.parametrize("data", [b"", LINE_START[:1], LINE_START, SMALL[:50], SMALL[:200]])
    def test_a_capture_that_was_cut_in_its_first_record_says_so(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(NothingRecorded, match="killed as it started") as refused:
            Capture(write(tmp_path, data))
        assert refused.value.size == len(data)

    @pytest.mark.parametrize("data", [b"", SMALL[:50]])
    def test_a_capture_that_has_only_just_begun_says_so(self, tmp_path: Path, data: bytes) -> None:
        fd = create(os.fspath(tmp_path / "x.mcpcap"))
        try:
            os.write(fd, data)
            with pytest.raises(NothingRecorded, match="its recorder has only just begun; try again") as refused:
                Capture(tmp_path / "x.mcpcap")
            assert refused.value.size == len(data)
        finally:
            unlock_and_close(fd)

    def test_what_is_no_regular_file_is_no_capture(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo.mcpcap")
        (tmp_path / "folder.mcpcap").mkdir()
        for path in (tmp_path / "fifo.mcpcap", tmp_path / "folder.mcpcap", tmp_path / "none.mcpcap", Path("/dev/null")):
            with pytest.raises(NotACapture, match="cannot read"):
                Capture(path)

    @pytest.mark.parametrize("version", [2, 999, 2**63 - 1])
    def test_a_newer_format_says_update(self, tmp_path: Path, version: int) -> None:
        path = write(tmp_path, seal(0, 0, "header", members(format=version, later=True)))
        with pytest.raises(NewerFormat, match="update mcpproxy"):
            Capture(path)

    @pytest.mark.parametrize("version", [0, -1, True, "1", 1.5, [1], {}, None, 2**70])
    def test_a_header_without_a_version_is_refused(self, tmp_path: Path, version: object) -> None:
        path = write(tmp_path, seal(0, 0, "header", members(format=version, name="x")))
        with pytest.raises(NotACapture):
            Capture(path)

    def test_a_damaged_header_does_not_hide_the_rest(self, tmp_path: Path) -> None:
        capture = Capture(write(tmp_path, SMALL.replace(b'"header"', b'"hea!er"')))
        assert capture.header.members == {"format": 1}
        damage, *rest = capture
        assert isinstance(damage, Damage)
        assert len([item for item in rest if isinstance(item, Record)]) == len(every_type()) - 1

    def test_unknown_records_and_members_pass(self, tmp_path: Path) -> None:
        data = (
            seal(0, 0, "header", header(x_new=[1])) + seal(1, 1, "x_new", b"") + seal(2, 2, "invented", members(a={}))
        )
        assert [item.rec for item in Capture(write(tmp_path, data)) if isinstance(item, Record)] == [
            "header",
            "x_new",
            "invented",
        ]

    def segments(self, folder: Path, *captures: str) -> Path:
        for number, capture in enumerate(captures, 1):
            name = "x.mcpcap" if number == 1 else f"x.{number}.mcpcap"
            middles = [("header", header(number, capture=capture)), ("frame", frame("c2s", b"{}"))]
            write(folder, b"".join(lines(middles, first=(number - 1) * 2)), name)
        return folder / "x.mcpcap"

    def test_segments_are_read_in_order_by_any_of_their_names(self, tmp_path: Path) -> None:
        self.segments(tmp_path, *[CAPTURE] * 12)
        for name in ("x.mcpcap", "x.2.mcpcap", "x.12.mcpcap"):
            assert [item.seq for item in Capture(tmp_path / name) if isinstance(item, Record)] == list(range(24))

    def test_a_segment_of_another_capture_is_damage(self, tmp_path: Path) -> None:
        path = self.segments(tmp_path, CAPTURE, "f" * 32, CAPTURE)
        items = list(Capture(path))
        assert [item.seq for item in items if isinstance(item, Record)] == [0, 1, 4, 5]
        size = (tmp_path / "x.2.mcpcap").stat().st_size
        assert [item for item in items if isinstance(item, Damage)] == [
            Damage(tmp_path / "x.2.mcpcap", 0, size, "foreign")
        ]

    def test_a_segment_of_a_newer_format_is_damage(self, tmp_path: Path) -> None:
        path = self.segments(tmp_path, CAPTURE, CAPTURE)
        data = seal(2, 0, "header", header(2, format=2)) + seal(3, 0, "x", b"")
        write(tmp_path, data, "x.2.mcpcap")
        items = list(Capture(path))
        assert items[2:] == [Damage(tmp_path / "x.2.mcpcap", 0, len(data), "version")]

    def test_a_foreign_header_in_the_middle_changes_nothing(self, tmp_path: Path) -> None:
        stray = seal(1, 0, "header", header(format=999, capture="e" * 32))
        data = seal(0, 0, "header", header()) + stray + seal(2, 0, "frame", frame("c2s", b"{}"))
        assert [item.seq for item in Capture(write(tmp_path, data)) if isinstance(item, Record)] == [0, 1, 2]

    def test_segments_that_the_ring_takes_while_they_are_read_are_read(self, tmp_path: Path) -> None:
        path = self.segments(tmp_path, *[CAPTURE] * 5)
        capture = Capture(path)
        found = []
        for item in capture:
            found.append(item.seq if isinstance(item, Record) else -1)
            for segment in tmp_path.iterdir():
                segment.unlink()
        assert found == list(range(10))

    def test_segments_that_the_ring_took_before_are_passed_over(self, tmp_path: Path) -> None:
        capture = Capture(self.segments(tmp_path, *[CAPTURE] * 4))
        (tmp_path / "x.mcpcap").unlink()
        (tmp_path / "x.2.mcpcap").unlink()
        assert [item.seq for item in capture if isinstance(item, Record)] == [4, 5, 6, 7]
        assert capture.segments == [tmp_path / "x.3.mcpcap", tmp_path / "x.4.mcpcap"]

    def test_more_segments_than_descriptors(self, tmp_path: Path) -> None:
        path = self.segments(tmp_path, *[CAPTURE] * 300)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        try:
            assert len(list(Capture(path))) == 600
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    @pytest.mark.soak
    def test_a_file_above_4_gib(self, tmp_path: Path) -> None:
        first, second = seal(0, 0, "header", header()), seal(2**33, 2**40, "frame", frame("c2s", b"{}"))
        path = tmp_path / "x.mcpcap"
        with path.open("wb") as file:
            file.write(first)
            file.seek((5 << 30) - 1)
            file.write(b"\n" + second)
        _, hole, two = Capture(path)
        assert isinstance(hole, Damage)
        assert isinstance(two, Record)
        assert (hole.size, two.seq, two.offset) == ((5 << 30) - len(first), 2**33, 5 << 30)


class TestFrames:
    """Parts are assembled into frames, and losses in them are marked."""

    RAW = b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + "größer ".encode() * 40 + b'"}}'

    def read(self, *middles: tuple[str, bytes]) -> list[Any]:
        return list(read_frames(whole_records(b"".join(lines(middles)))))

    @given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from([b"\n", b"\r\n"]))
    def test_parts_of_any_bytes_are_joined(self, raw: bytes, piece: int, delim: bytes) -> None:
        (joined,) = self.read(*in_pieces("s2c", raw or b"x", piece, delim=delim))
        assert (joined.raw, joined.whole, joined.delim) == (raw or b"x", True, delim)

    def test_a_joined_frame_is_judged_anew(self) -> None:
        (joined,) = self.read(*in_pieces("s2c", self.RAW, 50))
        assert (joined.verdict.kind, joined.verdict.id, joined.seq) == ("response", b"7", 9)

    def test_parts_of_several_streams_may_stand_between_each_other(self) -> None:
        def stream(direction: Any, mark: bytes, **key: Any) -> list[tuple[str, bytes]]:
            parts = [("part", part_members(direction, n, mark * n, **key)) for n in (1, 2, 3)]
            return [*parts, ("frame", frame_members(direction, b"", UNJUDGED, parts=(3, 6), **key))]

        streams = [
            stream("c2s", b"a"),
            stream("s2c", b"b"),
            stream("s2c", b"c", conn=1),
            stream("s2c", b"d", exchange=1),
        ]
        middles = [streams[number % 4][number // 4] for number in range(16)]
        frames = self.read(*middles)
        assert [(item.raw, item.whole) for item in frames] == [(mark * 6, True) for mark in (b"a", b"b", b"c", b"d")]

    @pytest.mark.parametrize("missing", range(9))
    def test_a_frame_with_a_lost_record_is_not_whole_and_invents_nothing(self, missing: int) -> None:
        middles = in_pieces("s2c", self.RAW, 50)
        assert len(middles) == 9 + 1
        (left,) = self.read(*middles[:missing], *middles[missing + 1 :])
        assert not left.whole
        assert self.RAW.startswith(left.raw)
        assert len(left.raw) == 50 * missing

    def test_parts_without_an_end_come_at_the_end(self) -> None:
        middles = in_pieces("s2c", self.RAW, 50)[:3]
        small, left = self.read(*middles, ("frame", frame("c2s", b"{}")))
        assert small.raw == b"{}"
        assert (left.raw, left.whole, left.delim, left.seq) == (self.RAW[:150], False, b"", 0)

    def test_a_frame_without_an_end_comes_before_the_next_of_its_stream(self) -> None:
        one, two = in_pieces("s2c", b"a" * 60, 10), in_pieces("s2c", b"b" * 60, 10)
        first, second = self.read(*one[:4], *two)
        assert [(item.raw, item.whole) for item in (first, second)] == [(b"a" * 40, False), (b"b" * 60, True)]

    def test_two_frames_are_never_mixed(self) -> None:
        """Tested for every way to lose the end of the first and the beginning of the second."""
        one, two = in_pieces("s2c", b"a" * 60, 10), in_pieces("s2c", b"b" * 60, 10)
        for end in range(len(one)):
            for start in range(len(two)):
                gap = members(first=90, last=91, lost=lost(s2c=(1, 40)), reason="slow")
                frames = [
                    item for item in self.read(*one[:end], ("gap", gap), *two[start:]) if not isinstance(item, Record)
                ]
                for item in frames:
                    assert len(set(item.raw)) <= 1, (end, start)
                    assert item.whole == (item.raw == b"b" * 60)

    def test_a_gap_without_a_lost_frame_does_not_end_one(self) -> None:
        middles = in_pieces("s2c", self.RAW, 50)
        gap = ("gap", members(first=90, last=91, lost=lost(other=(1, 0)), reason="slow"))
        _, joined = self.read(*middles[:3], gap, *middles[3:])
        assert (joined.raw, joined.whole) == (self.RAW, True)

    def test_giant_frames_above_the_room_are_not_held(self) -> None:
        assembler = FrameAssembler(room=3 * (PIECE_OVERHEAD_BYTES + 30))
        for raw, held, whole in ((b"x" * 500, b"x" * 90, False), (b"y" * 90, b"y" * 90, True)):
            records = whole_records(b"".join(lines(in_pieces("s2c", raw, 30))))
            *parts, found = [assembler.feed(record) for record in records]
            assert not any(parts)
            assert isinstance(found, Frame)
            assert (found.raw, found.whole) == (held, whole)

    def test_members_of_a_wrong_type_raise_nothing(self) -> None:
        good = {"dir": "s2c", "kind": "request", "part": 1, "parts": 1, "size": 1, "raw": "x", "lost": lost(s2c=(1, 1))}
        names = ["dir", "conn", "exchange", "part", "size", "raw", "parts", "delim", "unit", "event_id"]
        values: list[Any] = [None, True, -1, 2**63, 1.5, "", "x", [], {}, [{}], "\x00"]
        for rec, name, value in product(["frame", "part", "gap"], names, values):
            hostile = (rec, members(**{**good, name: value}))
            self.read(("part", members(**good)), hostile, hostile, ("gap", members(**{**good, "lost": {"s2c": value}})))


hostile_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.sampled_from(["c2s", "s2c"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["c2s", "frames", "bytes", "x"]), inner)
    ),
    max_leaves=5,
)
NAMES = """
    format capture segment name argv wall_ns parents dir conn exchange unit event_id kind id method size raw raw_b64
    id_again delim whole parts part first last lost reason ending status signal totals event pid of to waited_ns by
    bytes errno stage
"""
TYPES = "header frame part exchange stream eof stderr process signal stall gap close x_new"
names, types = st.sampled_from(NAMES.split()), st.sampled_from(TYPES.split())
hostile_records = st.tuples(
    st.integers(0, 2**64 - 1) | st.integers(0, 9),
    types,
    st.integers(0, 2**64 - 1),
    st.dictionaries(names, hostile_values),
)


@given(st.lists(hostile_records, max_size=8))
@examples(30)
def test_records_with_the_right_checksum_and_any_members_raise_nothing(records: list[Any]) -> None:
    data = b"".join(seal(seq, t_ns, rec, members(**fields)) for seq, rec, t_ns, fields in records)
    assert assembled(cut(data)) is not None
