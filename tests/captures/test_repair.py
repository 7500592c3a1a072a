"""A repaired copy holds every whole record of the original, and accounts for every number."""

import errno
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import file as file_module
from captures.errors import CannotCreate, CaptureError
from captures.integrity import Gap, inspect
from captures.reader import Capture
from captures.record import LINE_START, Record, seal
from captures.repair import RepairResult, repair
from tests.captures.samples import conversation, every_type, header, lines, whole_records

SMALL = every_type()


def repaired(folder: Path, data: bytes) -> tuple[list[Record], RepairResult, Path]:
    """Repair a file that holds `data`; returns the records of the copy, all accounted for."""
    original, copy = folder / "x.mcpcap", folder / "y.mcpcap"
    original.write_bytes(data)
    done = repair(Capture(original), copy)
    assert original.read_bytes() == data
    found = inspect(Capture(copy))
    assert (found.missing, found.repeated, found.damage) == (0, 0, [])
    records = [item for item in Capture(copy) if isinstance(item, Record)]
    assert all(one.seq < two.seq for one, two in pairwise(records))
    whole = {record.line for record in whole_records(data)}
    assert len(whole & {record.line for record in records}) == done.record_count
    numbers = {number for record in records for number in accounted(record)}
    assert numbers >= set(range(records[0].seq, records[-1].seq + 1))
    return records, done, copy


def accounted(record: Record) -> list[int]:
    """The numbers that a record accounts for."""
    first, last = record.members.get("first"), record.members.get("last")
    if record.rec != "gap" or not isinstance(first, int) or not isinstance(last, int):
        return [record.seq]
    return [*range(first, last + 1), record.seq]


def test_a_whole_capture_is_copied_as_it_is(tmp_path: Path) -> None:
    _, done, copy = repaired(tmp_path, b"".join(SMALL))
    assert copy.read_bytes() == b"".join(SMALL)
    assert (done.gap_count, done.dropped_bytes, done.dropped_records) == (0, 0, 0)


@pytest.mark.parametrize("lost", range(1, len(SMALL) - 1))
def test_one_damaged_record_becomes_a_gap_in_its_place(tmp_path: Path, lost: int) -> None:
    damaged = SMALL[lost].replace(b'"rec"', b'"rex"')
    records, done, _ = repaired(tmp_path, b"".join([*SMALL[:lost], damaged, *SMALL[lost + 1 :]]))
    number = whole_records(SMALL[lost])[0].seq
    (gap,) = [record for record in records if record.members.get("reason") == "damage"]
    if SMALL[lost].find(b'"gap"') < 0:
        assert (gap.seq, "first" in gap.members, len(records)) == (number, False, len(SMALL))
    assert (done.gap_count, done.dropped_bytes) == (1, len(SMALL[lost]))


def test_several_lost_records_are_one_gap(tmp_path: Path) -> None:
    records, done, _ = repaired(tmp_path, b"".join([*SMALL[:3], b"\0" * 4096, *SMALL[7:]]))
    (gap,) = [record for record in records if record.members.get("reason") == "damage"]
    assert (gap.seq, gap.members["first"], gap.members["last"]) == (6, 3, 5)
    assert done.gap_count == 1


def test_a_lost_header_is_replaced_by_the_little_that_is_known(tmp_path: Path) -> None:
    for lost in (1, 3):
        folder = tmp_path / f"files {lost}"
        folder.mkdir()
        records, done, copy = repaired(folder, b"junk\n" + b"".join(SMALL[lost:]))
        assert Capture(copy).header.members.keys() == {"seq", "rec", "t_ns", "format", "name", "substitute", "crc"}
        assert Capture(copy).header.members["name"] == f"files-{lost}"
        assert [record.seq for record in records[:2]] == [0, lost - 1 or 1]
        assert done.gap_count == (1 if lost == 1 else 2)
        assert inspect(Capture(copy)).state == "incomplete"
        assert inspect(Capture(copy)).gaps[0] == Gap(0, 0, None, "damage", 0)


def test_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    whole = b"".join(SMALL)
    records, done, _ = repaired(tmp_path, whole[:-5])
    assert len(records) == len(SMALL) - 1
    assert (done.gap_count, done.dropped_bytes) == (0, len(SMALL[-1]) - 5)


def test_a_block_that_stands_twice_is_copied_once(tmp_path: Path) -> None:
    _, done, copy = repaired(tmp_path, b"".join([*SMALL[:9], *SMALL[3:9], *SMALL[9:]]))
    assert copy.read_bytes() == b"".join(SMALL)
    assert done.dropped_records == 6


def test_all_segments_become_one_file(tmp_path: Path) -> None:
    whole = lines(conversation(40, random.Random(1)))
    second = seal(20, 0, "header", header(2))
    (tmp_path / "x.mcpcap").write_bytes(b"".join(whole[:20]))
    (tmp_path / "x.2.mcpcap").write_bytes(b"".join([second, *whole[21:]]))
    repair(Capture(tmp_path / "x.2.mcpcap"), tmp_path / "y.mcpcap")
    assert (tmp_path / "y.mcpcap").read_bytes() == b"".join([*whole[:20], second, *whole[21:]])
    assert inspect(Capture(tmp_path / "y.mcpcap")).state == "complete"


def test_what_the_ring_has_dropped_is_no_gap(tmp_path: Path) -> None:
    late = seal(20, 0, "header", header(2)), *lines(conversation(40, random.Random(1)))[21:]
    (tmp_path / "x.2.mcpcap").write_bytes(b"".join(late))
    done = repair(Capture(tmp_path / "x.mcpcap"), tmp_path / "y.mcpcap")
    assert done.gap_count == 0
    assert (tmp_path / "y.mcpcap").read_bytes() == b"".join(late)


def test_repairing_a_repaired_copy_changes_nothing(tmp_path: Path) -> None:
    _, _, copy = repaired(tmp_path, b"".join([*SMALL[:3], b"junk\n", *SMALL[7:]]))
    repair(Capture(copy), tmp_path / "z.mcpcap")
    assert (tmp_path / "z.mcpcap").read_bytes() == copy.read_bytes()


@given(
    st.lists(st.tuples(st.integers(0, 1 << 16), st.sampled_from(["flip", "cut", "insert", "copy", "zero"])), max_size=6)
)
def test_whatever_was_damaged(tmp_path_factory: pytest.TempPathFactory, wounds: list[tuple[int, str]]) -> None:
    folder = tmp_path_factory.mktemp("repair")
    data = bytearray(b"".join(lines(conversation(12, random.Random(2)))))
    for place, how in wounds:
        at = place % len(data)
        if how == "flip":
            data[at] ^= 1 << place % 8
        elif how == "cut":
            del data[at : at + place % 300]
        elif how == "insert":
            data[at:at] = LINE_START * (place % 3) + b"junk"
        elif how == "copy":
            data[at:at] = data[place % 1000 : place % 1000 + 700]
        else:
            data[at : at + 200] = bytes(200)
    if whole_records(bytes(data)):
        repaired(folder, bytes(data))


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.mcpcap").write_bytes(b"".join(SMALL))
    for name in ("x.mcpcap", "y.mcpcap"):
        (tmp_path / "y.mcpcap").write_bytes(b"precious")
        with pytest.raises(CannotCreate):
            repair(Capture(tmp_path / "x.mcpcap"), tmp_path / name)
    assert (tmp_path / "y.mcpcap").read_bytes() == b"precious"


def test_no_half_copy_is_left_by_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.mcpcap").write_bytes(b"".join(SMALL))

    def refuse(*_: object) -> None:
        raise file_module.AppendError(errno.ENOSPC, None, 0)

    monkeypatch.setattr(file_module.CaptureFile, "append", refuse)
    with pytest.raises(CaptureError, match=r"cannot write .*/y\.mcpcap: No space left"):
        repair(Capture(tmp_path / "x.mcpcap"), tmp_path / "y.mcpcap")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.mcpcap"]
