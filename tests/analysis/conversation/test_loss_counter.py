"""Which lost records a response may be among."""

from analysis.conversation.loss_counter import MAX_LOST_RANGES, LossCounter, LostRecords
from captures.gaps import MAX_LOST_RECORDS


def test_only_what_was_lost_after_a_message_counts() -> None:
    losses = LossCounter()
    losses.note((5, 9))
    before = losses.count
    assert losses.lost_since(before, 11) is None
    losses.note((12, 12))
    assert losses.lost_since(before, 11) == LostRecords(12, 12)
    losses.note((14, 15))
    assert losses.lost_since(before, 11) == LostRecords(12, 15, 2)
    assert losses.lost_since(before, 13) == LostRecords(14, 15)
    assert losses.lost_since(before, 11, 14) == LostRecords(12, 15, 2)
    assert losses.lost_since(before, 11, 13) == LostRecords(12, 12)
    assert losses.lost_since(0, 2) == LostRecords(5, 15, 3)


def test_a_gap_that_later_records_have_revealed_is_one_place() -> None:
    losses = LossCounter()
    losses.note((5, 9))
    losses.note((4, 9))
    assert losses.lost_since(0, 2) == LostRecords(4, 9)
    # Its record comes after a message whose number is later.
    assert losses.lost_since(1, 11) is None


def test_unknown_numbers_are_counted_and_not_named() -> None:
    losses = LossCounter()
    losses.note(None)
    assert losses.count == 1
    assert losses.lost_since(0, 2) is None


def test_a_hostile_capture_costs_a_bounded_list() -> None:
    losses = LossCounter()
    for number in range(3 * MAX_LOST_RANGES):
        losses.note((10 * number, 10 * number + 1))
    losses.note((0, MAX_LOST_RECORDS))
    assert losses.count == 3 * MAX_LOST_RANGES + 1
    assert losses.lost_since(0, -1) == LostRecords(0, MAX_LOST_RECORDS)
    losses.note((7, 3))
    found = losses.lost_since(0, 1)
    assert found is not None
    assert found.places == 1
