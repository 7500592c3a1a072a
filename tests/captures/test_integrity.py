"""Integrity: the state of a capture in one word, and an account of every number."""

import random
from pathlib import Path
from typing import Any

import pytest

from captures.damage import Damage
from captures.file import CaptureFile
from captures.integrity import MAX_LISTED_LOSSES, Inspection, inspect, inspect_file, tally
from captures.reader import Capture
from captures.record import Record, members, seal
from tests.captures.samples import conversation, every_type, frame, header, lines, lost, whole_records

SMALL = every_type()


def found(*middles: tuple[int, str, bytes]) -> Inspection:
    """The inspection of records with these numbers."""
    return tally(whole_records(b"".join(seal(seq, seq, rec, middle) for seq, rec, middle in middles)))


def gap(first: Any, last: Any, **more: Any) -> bytes:
    return members(first=first, last=last, **{"lost": lost(), "reason": "slow", **more})


HEAD = (0, "header", header())
FRAME = frame("c2s", b"{}")
CLOSE = members(ending="server")


class TestState:
    """The state is complete, recording, incomplete or damaged."""

    def state(self, folder: Path, data: bytes) -> str:
        (folder / "x.mcpcap").write_bytes(data)
        return inspect(Capture(folder / "x.mcpcap")).state

    def test_of_a_whole_and_closed_capture(self, tmp_path: Path) -> None:
        assert self.state(tmp_path, b"".join(lines(conversation(9, random.Random(1))))) == "complete"

    def test_of_one_without_an_end(self, tmp_path: Path) -> None:
        whole = b"".join(lines(conversation(9, random.Random(1)))[:-1])
        for torn in (whole, whole[:-1], whole[:-9], whole[: len(whole) // 2]):
            assert self.state(tmp_path, torn) == "incomplete"

    def test_of_one_with_counted_losses(self, tmp_path: Path) -> None:
        assert self.state(tmp_path, b"".join(SMALL)) == "incomplete"

    def test_of_one_that_ends_in_the_close_of_a_segment(self, tmp_path: Path) -> None:
        data = seal(0, 0, "header", header()) + seal(1, 1, "close", members(ending="segment"))
        assert self.state(tmp_path, data) == "incomplete"

    def test_of_one_with_damage_gaps_in_the_numbers_or_doubles(self, tmp_path: Path) -> None:
        whole = lines(conversation(9, random.Random(1)))
        for wrong in (
            [*whole[:4], b"x\n", *whole[4:]],
            [*whole[:4], *whole[5:]],
            [*whole[1:]],
            [*whole[:4], *whole[3:]],
            [*whole[:4], whole[5], whole[4], *whole[6:]],
        ):
            assert self.state(tmp_path, b"".join(wrong)) == "damaged"

    @pytest.mark.parametrize("size", [0, 1, 60])
    def test_of_one_in_which_no_record_is_whole_yet(self, tmp_path: Path, size: int) -> None:
        path = tmp_path / "x.mcpcap"
        path.write_bytes(seal(0, 0, "header", header())[:size])
        found = inspect_file(path)
        assert (found.state, found.records, found.torn, found.damaged_bytes) == ("incomplete", 0, size > 0, size)
        path.unlink()
        made = CaptureFile(path)
        assert inspect_file(path).state == "recording"
        made.close()

    def test_of_one_that_is_being_recorded(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / "x.mcpcap")
        made.append(seal(0, 0, "header", header()))
        assert inspect(Capture(tmp_path / "x.mcpcap")).state == "recording"
        made.append(seal(2, 0, "frame", FRAME))
        assert inspect(Capture(tmp_path / "x.mcpcap")).state == "damaged"
        made.close()

    def test_of_one_whose_first_segments_the_ring_has_dropped(self, tmp_path: Path) -> None:
        data = seal(70, 0, "header", header(3)) + seal(71, 1, "close", CLOSE)
        (tmp_path / "x.3.mcpcap").write_bytes(data)
        result = inspect(Capture(tmp_path / "x.mcpcap"))
        assert (result.state, result.first_seq, result.missing) == ("complete", 70, 0)

    def test_of_one_with_a_segment_missing_in_the_middle(self, tmp_path: Path) -> None:
        for number, first in ((1, 0), (3, 4)):
            data = b"".join(lines([("header", header(number)), ("frame", FRAME)], first))
            (tmp_path / ("x.mcpcap" if number == 1 else f"x.{number}.mcpcap")).write_bytes(data)
        result = inspect(Capture(tmp_path / "x.mcpcap"))
        assert (result.state, result.holes) == ("damaged", [(2, 3)])


class TestNumbers:
    """Each number belongs to a record or lies in a gap."""

    def test_gaps_account_for_their_range_wherever_they_stand(self) -> None:
        for numbers in (
            [HEAD, (5, "gap", gap(1, 4))],
            [HEAD, (5, "frame", FRAME), (6, "frame", FRAME), (7, "gap", gap(1, 4))],
            [HEAD, (3, "frame", FRAME), (5, "gap", gap(1, 2)), (6, "gap", gap(4, 4))],
            [(1, "frame", FRAME), (2, "gap", gap(0, 0))],
        ):
            assert (found(*numbers).missing, found(*numbers).holes) == (0, [])

    @pytest.mark.parametrize(
        ("range_", "left"),
        [
            ((1, 3), [(4, 4)]),
            ((2, 4), [(1, 1)]),
            ((2, 3), [(1, 1), (4, 4)]),
            ((0, 9), []),
            ((4, 1), [(1, 4)]),
            ((None, None), [(1, 4)]),
            (("1", 4), [(1, 4)]),
            ((True, 4), [(1, 4)]),
            ((7, 9), [(1, 4)]),
        ],
    )
    def test_gaps_of_another_range_leave_the_rest(self, range_: tuple[Any, Any], left: list[tuple[int, int]]) -> None:
        result = found(HEAD, (5, "gap", gap(*range_)), (10, "gap", gap(6, 9)))
        # A gap record cannot know about numbers after its own.
        expected = [(1, 4)] if range_ == (0, 9) else left
        assert result.holes == expected
        assert result.missing == sum(last - first + 1 for first, last in expected)

    def test_a_gap_of_a_repair_stands_for_itself(self) -> None:
        result = found(
            HEAD, (1, "gap", members(reason="damage")), (4, "gap", members(first=2, last=3, reason="damage"))
        )
        assert [(item.first, item.last, item.lost) for item in result.gaps] == [(1, 1, None), (2, 4, None)]
        assert (result.missing, result.gap_count) == (0, 2)

    def test_records_out_of_order_are_counted(self) -> None:
        result = found(HEAD, (1, "frame", FRAME), (1, "frame", FRAME), (0, "frame", FRAME), (2, "frame", FRAME))
        assert (result.repeated, result.missing, result.last_seq) == (2, 0, 2)


class TestSums:
    """The totals of a capture."""

    def test_counts_frames_and_bytes(self) -> None:
        result = tally(whole_records(b"".join(SMALL)))
        assert result.frames == {"c2s": 2, "s2c": 4}
        assert result.records == len(SMALL) == sum(result.counts.values())
        assert result.bytes["s2c"] == sum(
            record.members["size"]
            for record in whole_records(b"".join(SMALL))
            if record.members.get("dir") == "s2c" and "raw" in str(record.members.keys())
        )
        assert result.gaps[0].lost == lost(c2s=(1, 40), other=(2, 0))
        assert result.close is not None
        assert result.last_t_ns == 21_000

    def test_what_is_remembered_is_bounded_and_everything_counted(self) -> None:
        result = Inspection()
        for number in range(3 * MAX_LISTED_LOSSES):
            result.add_item(Record(number, f"x_{number}", 0, {}))
            result.add_item(Record(number, "gap", 0, {"first": 0, "last": 0}))
            result.add_item(Damage(Path("x"), number, 1, "corrupt"))
        assert (len(result.gaps), len(result.damage), len(result.counts)) == (
            MAX_LISTED_LOSSES,
            MAX_LISTED_LOSSES,
            MAX_LISTED_LOSSES + 1,
        )
        assert (result.gap_count, result.damage_count, result.damaged_bytes) == (
            3 * MAX_LISTED_LOSSES,
            3 * MAX_LISTED_LOSSES,
            3 * MAX_LISTED_LOSSES,
        )
        assert sum(result.counts.values()) == result.records == 6 * MAX_LISTED_LOSSES
