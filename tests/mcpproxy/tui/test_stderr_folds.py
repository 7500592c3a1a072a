"""Stderr folds: long runs of lines share a row, in a capture that grows as in one that has ended."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from captures.file import CaptureFile
from captures.record import stderr_members
from mcpproxy.tui.data.stderr_folds import MIN_FOLDED_LINES, StderrFolds
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import END, INITIALIZE, Middles, frame_record


def of(rows: list[int], unfolded: set[int]) -> list[int]:
    """The rows to list of a capture whose other rows are lines of stderr, by a slower way; row 0 has no line."""
    listed: list[int] = []
    run: list[int] = []
    for row in [*rows, -1]:
        if run and row == run[-1] + 1:
            run.append(row)
            continue
        listed += run[:1] if len(run) >= MIN_FOLDED_LINES and run[0] not in unfolded else run
        run = [row]
    return listed


@given(st.lists(st.booleans(), max_size=40), st.sets(st.integers(1, 40)))
def test_long_runs_share_a_row_while_a_capture_grows(are_lines: list[bool], wanted: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mcpcap"
        middles: Middles = [("header", header(name="a"))]
        middles += [
            ("stderr", stderr_members(b"x")) if is_line else frame_record("c2s", INITIALIZE) for is_line in are_lines
        ]
        file = CaptureFile(path)
        told = lines([*middles, END])
        file.append(told[0])
        reading = InProcessReading(path)
        folds = StderrFolds(reading)
        line_rows = [row for row, is_line in enumerate(are_lines, 1) if is_line]
        for line in told[1:]:
            file.append(line)
            reading.step()
            folds.grow()
            for row in wanted:
                folds.reveal(row)
        file.close()
        while reading.step():
            folds.grow()
        folds.grow()
        unfolded = {row for row in line_rows if folds.is_unfolded(row)}
        listed_lines = of(line_rows, unfolded)
        others = [row for row in reading.folded_rows if row not in line_rows]
        assert list(folds.rows) == sorted([*listed_lines, *others])
        assert len(folds.rows) == len(listed_lines) + len(others)
        # Folded again, every long run is one row, and stands for all its lines.
        for row in unfolded:
            folds.fold(row, is_unfolded=False)
        assert list(folds.rows) == sorted([*of(line_rows, set()), *others])
        assert sum(folds.folded_count(row) or 1 for row in of(line_rows, set())) == len(line_rows)
        reading.close()
