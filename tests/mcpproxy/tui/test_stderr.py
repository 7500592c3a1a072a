"""Stderr: the lines in order of arrival, a search for words, and the frames that crossed at the same time."""

from pathlib import Path

from captures.file import CaptureFile
from captures.record import stderr_members
from mcpproxy.tui.data.stderr_lines import MAX_NEIGHBOURS, LogSearch, line_text_of, rows_around
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import CALL, END, FINE, Middles, frame_record, record


def wrote(text: str | bytes, skipped: int = 0) -> tuple[str, bytes]:
    """A record of a line of stderr."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return "stderr", stderr_members(raw, skipped=skipped)


def talkative(calls: int = 20) -> Middles:
    """A server that logs each call before it answers, with a warning on every fifth."""
    made: Middles = [("header", header(name="library")), wrote("Ready to lend")]
    for n in range(1, calls + 1):
        level = "WARNING low on shelves" if n % 5 == 0 else "info"
        made += [frame_record("c2s", CALL % (n, n)), wrote(f"{level} call {n}"), frame_record("s2c", FINE % (n, n))]
    return made


def read(path: Path) -> Reading:
    """A capture, read and understood."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    return reading


class TestLog:
    """The lines of stderr."""

    def test_lines_are_all_lines(self, tmp_path: Path) -> None:
        reading = read(record(tmp_path / "x.mcpcap", [*talkative(), wrote(b"\xff\x1b[1mbold", skipped=1234), END]))
        texts = [line_text_of(reading, row) for row in reading.stderr_rows]
        assert len(texts) == 22
        assert texts[0] == ("Ready to lend", 0)
        assert texts[5] == ("WARNING low on shelves call 5", 0)
        assert texts[-1] == ("\\xff\\x1b[1mbold", 1234)
        assert line_text_of(reading, reading.stderr_rows[0], 5) == ("Read…", 0)
        assert line_text_of(reading, 0) is None
        reading.close()

    def test_words_are_found_while_it_grows(self, tmp_path: Path) -> None:
        made, known = CaptureFile(tmp_path / "x.mcpcap"), lines([*talkative(), END])
        for line in known[:30]:
            made.append(line)
        reading = Reading(tmp_path / "x.mcpcap")
        search = LogSearch(reading, "SHELVES  warning")
        while reading.step() or search.step():
            pass
        assert 0 < search.searched_count < 21
        for line in known[30:]:
            made.append(line)
        made.close()
        while not reading.has_ended:
            reading.step()
        while search.step():
            pass
        assert search.searched_count == 21
        found = [line_text_of(reading, row) for row in search.rows]
        assert found == [(f"WARNING low on shelves call {n}", 0) for n in (5, 10, 15, 20)]
        reading.close()

    def test_frames_at_the_time_of_a_line(self, tmp_path: Path) -> None:
        reading = read(record(tmp_path / "x.mcpcap", [*talkative(200), END]))
        row = reading.stderr_rows[100]
        rows, at = rows_around(reading, row)
        assert len(rows) == 2 * MAX_NEIGHBOURS
        assert list(rows) == sorted(rows)
        assert rows[at - 1] < row < rows[at]
        assert all(reading.index.kind(one) != "stderr" for one in rows)
        first, at = rows_around(reading, reading.stderr_rows[0])
        assert (at, len(first)) == (0, MAX_NEIGHBOURS)
        reading.close()
