"""Which rule selects a row: by columns when it is drawn, by its frame once it has been read."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from analysis.filter import parse
from captures.record import stderr_members
from mcpproxy.tui.colours.row_looks import MAX_KNOWN_ROWS, RowLooks
from mcpproxy.tui.colours.rules import ColourRule, RowLook
from tests.captures.samples import header
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import CALL, END, FINE, WRONG, conversation, frame_record, record

Middles = Sequence[tuple[str, bytes]]
BATCH = b"[" + CALL % (1, 1) + b"," + CALL % (2, 2) + b"]"


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Callable[[Middles], Reading]]:
    """Returns the reading of a capture of some records, once all of it is understood."""
    readings = []

    def opened(middles: Middles) -> Reading:
        reading = Reading(record(tmp_path / "x.mcpcap", middles))
        readings.append(reading)
        while not reading.has_ended:
            reading.step()
        return reading

    yield opened
    for reading in readings:
        reading.close()


def looks_of(reading: Reading, *expressions: str, marks: dict[int, str] | None = None) -> dict[int, str]:
    """The expression that gives a row its look, by the number of the row, after rows have been read where needed."""
    marks = marks or {}
    rules = [ColourRule(parse(expression), RowLook(expression)) for expression in expressions]
    looks = RowLooks(reading, rules)
    found = {}
    for row in range(len(reading.index)):
        if looks.must_read(row, marks):
            assert looks.look_of([row]) is None or not all("text" in rule.row_filter.keys for rule in rules)
            looks.read(row, marks)
            assert not looks.must_read(row, marks)
        look = looks.look_of([row])
        if look is not None:
            found[row] = look.colour
    return found


def test_columns_and_frames_are_tested_in_the_order_of_the_rules(read: Callable[[Middles], Reading]) -> None:
    reading = read([*conversation(3), END])
    assert looks_of(reading, "kind:error", '"found 2"', "method:tools/call") == {
        4: "method:tools/call", 5: "method:tools/call", 6: "method:tools/call", 7: '"found 2"',
        8: "method:tools/call", 9: "kind:error", 11: "method:tools/call",
    }  # fmt: skip
    assert looks_of(reading, '"found 2" or kind:error') == {7: '"found 2" or kind:error', 9: '"found 2" or kind:error'}


def test_marks_count_and_a_line_may_show_two_rows(read: Callable[[Middles], Reading]) -> None:
    reading = read([*conversation(3), END])
    seq = reading.index.entry(4).seq
    assert looks_of(reading, "has:mark", marks={seq: ""}) == {4: "has:mark"}
    looks = RowLooks(reading, [ColourRule(parse("kind:error"), RowLook("red"))])
    assert looks.look_of([8, 9]) == RowLook("red")
    assert looks.look_of([8]) is None


def test_what_may_change_is_tested_again(read: Callable[[Middles], Reading]) -> None:
    reading = read([*conversation(3), END])
    looks = RowLooks(reading, [ColourRule(parse('has:mark "found"'), RowLook("red"))])
    looks.read(5, {})
    assert looks.look_of([5]) is None
    marks = {reading.index.entry(5).seq: ""}
    assert looks.must_read(5, marks)
    looks.read(5, marks)
    assert looks.look_of([5]) == RowLook("red")


def test_rows_of_every_kind_are_bounded_and_never_fail(tmp_path: Path, read: Callable[[Middles], Reading]) -> None:
    long_name = CALL.replace(b"search", b"a" * 100_000) % (7, 7)
    middles = [
        ("header", header()),
        *(frame_record("c2s", raw) for raw in (BATCH, long_name, b"\xff\x00", b"{}", CALL % (3, 3))),
        frame_record("s2c", FINE.replace(b"found", b"\\u001b" * 300_000) % (7, 7)),
        ("stderr", stderr_members(b"\x1b[31m")),
        frame_record("s2c", WRONG % 3),
        END,
    ]
    reading = read(middles)
    expressions = ("name:aaaa*", '"search"', "size>1M", "id:3", "problem:*", "turn:*", "level>=note", "has:waiting")
    found = looks_of(reading, *expressions)
    assert set(found) <= set(range(len(reading.index)))
    assert found[2] == "name:aaaa*"
    assert looks_of(reading) == {}
    (tmp_path / "x.mcpcap").unlink()
    assert looks_of(reading, "method:tools/call kind:request")[5]


def test_only_so_many_rows_are_remembered(read: Callable[[Middles], Reading]) -> None:
    reading = read([*conversation(1), END])
    looks = RowLooks(reading, [ColourRule(parse('"found"'), RowLook("red"))])
    looks._tested.update({-number: ((), ()) for number in range(1, MAX_KNOWN_ROWS + 1)})
    looks.read(5, {})
    assert len(looks._tested) == MAX_KNOWN_ROWS
    assert looks.look_of([5]) == RowLook("red")
