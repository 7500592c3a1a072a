"""Figures of selected calls: they are those of the calls whose request or response a filter selects, at any time."""

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.filter import parse
from captures.file import CaptureFile
from mcpproxy.marks import Marks
from mcpproxy.tui.data.call_selection import CallSelection, row_changes
from mcpproxy.tui.data.latencies import Latencies
from mcpproxy.tui.data.timelines import Timeline
from tests.captures.samples import lines
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import END, captured, conversation


def read(path: Path) -> Reading:
    """The reading of a capture, at its end."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    return reading


def selected(reading: Reading, expression: str) -> CallSelection:
    """The selection of a reading that has ended."""
    selection = CallSelection(reading, parse(expression))
    while selection.step():
        pass
    return selection


class TestSelection:
    """Which calls are selected."""

    def test_a_call_is_selected_by_its_request_or_its_response(self, tmp_path: Path) -> None:
        reading = read(captured(tmp_path, calls=6))
        # The calls are the handshake, six calls of which the third and the sixth fail, and one without a response.
        for expression, numbers in (
            ("method:tools/call", [1, 2, 3, 4, 5, 6, 7]),
            ("has:error", [3, 6]),
            ("'found 2'", [2]),
            ('"\\"n\\":4"', [4]),
            ("frame:6", [2]),
            ("not method:tools/call", [0]),
            ("has:failure", [3, 6, 7]),
            ("method:nothing", []),
            ("frame:3", []),
        ):
            selection = selected(reading, expression.replace("'", '"'))
            assert list(selection.calls) == numbers, expression
            assert [number for number in range(9) if number in selection] == numbers, expression
            assert not selection.is_searching, expression
            selection.close()
        reading.close()

    def test_marks_are_read_when_the_filter_needs_them(self, tmp_path: Path) -> None:
        path = captured(tmp_path)
        reading = read(path)
        marks = Marks(path, str(reading.index.header.members["capture"]))
        marks.toggle(7)
        selection = selected(reading, "has:mark")
        assert list(selection.calls) == [2]
        selection.close()
        # A file of marks that cannot be read selects nothing, and the traffic has said so.
        marks.path.write_text("no marks")
        selection = selected(reading, "has:mark")
        assert not selection
        selection.close()
        reading.close()

    @given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
    def test_changes_of_rows_are_what_differs(self, before: set[int], after: set[int]) -> None:
        left, joined = row_changes(array("I", sorted(before)), array("I", sorted(after)))
        assert set(left) == before - after
        assert list(joined) == sorted(after - before)


class TestGrowth:
    """A capture that grows."""

    @pytest.mark.parametrize(
        "expression", ["has:error", "latency>0ms", "not has:answer", "method:tools/call", '"found" or has:failure']
    )
    def test_a_file_that_grows_selects_and_counts_the_same(self, tmp_path: Path, expression: str) -> None:
        known = lines([*conversation(40), END])
        file = CaptureFile(tmp_path / "x.mcpcap")
        file.append(known[0])
        reading = Reading(tmp_path / "x.mcpcap")
        selection = CallSelection(reading, parse(expression))
        latencies = Latencies(reading, selection)
        latencies.choose_kind(1)
        timeline = Timeline(reading, 0, parse(expression))
        for line in known[1:]:
            file.append(line)
            reading.step()
            latencies.step()
            timeline.step()
        file.close()
        while any([reading.step(), latencies.step(), timeline.step()]) or not reading.has_ended:
            pass
        latencies._recount_pause_s = 0.0
        while latencies.step():
            pass
        again = CallSelection(reading, parse(expression))
        other = Latencies(reading, again)
        other.choose_kind(1)
        while other.step():
            pass
        assert list(selection.calls) == list(again.calls) == sorted(selection.joined)
        assert latencies.rows == other.rows
        assert sum(figures.requests for figures in other.rows) == len(again)
        assert latencies.distribution == other.distribution
        first, last = -1, reading.index.last_ns + 1
        assert timeline.calls_within(first, last, 1000) == list(again.calls)
        assert timeline.call_count(first, last) == sum(timeline.call_counts(first, last, 7)) == len(again)
        for part in (selection, again):
            part.close()
        timeline.show_only(None)
        reading.close()
