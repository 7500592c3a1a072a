"""Every key of every screen does what its page says, on captures at rest and live, large, broken and hostile."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.listing import find_captures
from captures.record import members
from mcpproxy.tui.data import capture_list as list_module
from mcpproxy.tui.data.capture_list import CaptureList, ListedCapture
from mcpproxy.tui.details.detail import detail
from mcpproxy.tui.rows.row_text import text_of
from mcpproxy.tui.screens.sessions import SessionRows
from mcpproxy.tui.screens.traffic_title import TitleState, peer_spans, title_spans
from mcpproxy.wording.spans import Span
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import CALL, END, captured, conversation, frame_record, lossy, record
from tests.mcpproxy.tui.test_rows import understood


class TestShelf:
    """What is known about each capture while the list is drawn."""

    def test_looking_leaves_time_to_read_however_long_it_takes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As if every search for captures took longer than the time between two searches.
        monkeypatch.setattr(list_module, "SEARCH_INTERVAL_S", 0.0)
        for number in range(40):
            captured(tmp_path, calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        for _ in range(1000):
            capture_list.step()
        assert [capture.has_full_summary for capture in capture_list.captures] == [True] * 40
        capture_list.close()

    def test_the_open_capture_is_read_first(self, tmp_path: Path) -> None:
        for number in range(20):
            captured(tmp_path, calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        capture_list.step()
        capture_list.in_view = capture_list.captures[12:14]
        while not capture_list.captures[13].has_full_summary:
            capture_list.step()
        assert [capture.has_begun for capture in capture_list.captures] == [12 <= at <= 13 for at in range(20)]
        capture_list.close()

    def test_a_large_capture_holds_up_no_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(list_module, "VISIBLE_ONLY_STEPS", 5)
        monkeypatch.setattr(list_module, "STEP", 1 << 10)
        captured(tmp_path, "large", calls=500, stamp="20261122T101500Z-0000")
        for number in range(5):
            captured(tmp_path, f"small{number}", calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        capture_list.step()
        large, *small = sorted(capture_list.captures, key=lambda capture: capture.path.parent.name)
        capture_list.in_view = [large, *small[:2]]
        while not all(capture.has_full_summary for capture in small[:2]) or not all(
            capture.has_begun for capture in small
        ):
            capture_list.step()
        assert large.has_begun
        assert not large.has_full_summary
        capture_list.close()


def session_row(path: Path) -> str:
    """The list's row of a capture that was read to its end, or as far as it is recorded."""
    capture = ListedCapture(path)
    capture.begin()
    while capture.step():
        pass
    rows = SessionRows(CaptureList(list), lambda _: None)
    rows.items = [capture]
    line = rows.line(0)
    capture.close()
    shown = (column for column in ("mark", "server", "client", "revision", "frames", "errors", "p95", "traffic"))
    return " | ".join("".join(span.text for span in line.cells.get(column, ())) for column in shown)


class TestSessions:
    """The rows of the list."""

    def test_marks_tell_live_dead_lossy_and_unreadable(self, tmp_path: Path) -> None:
        crash = ("close", members(ending="server", status=1, totals={}))
        made = CaptureFile(tmp_path / "live.mcpcap")
        for line in lines(conversation(2, "living")):
            made.append(line)
        broken = tmp_path / "none" / "broken.mcpcap"
        broken.parent.mkdir()
        broken.write_bytes(b"nothing of ours")
        (tmp_path / "loop.mcpcap").symlink_to("loop.mcpcap")
        for path, told in (
            (tmp_path / "live.mcpcap", ("● | living", " | 8 | ")),
            (record(tmp_path / "dead.mcpcap", conversation(1, "killed")), ("✝ | killed", "killed")),
            (record(tmp_path / "failed.mcpcap", [*conversation(1, "failing"), crash]), ("✝ | failing", "exit 1")),
            (lossy(tmp_path / "lossy.mcpcap", conversation(1, "losing"), 7), ("▲ | losing",)),
            (broken, ("▲ | none | cannot be read",)),
            (tmp_path / "loop.mcpcap", ("▲ | ", "cannot be read")),
        ):
            row = session_row(path)
            assert row.startswith(told[0]), row
            assert all(text in row for text in told), row
        made.close()

    def test_a_summary_says_the_same_when_it_was_kept(self, tmp_path: Path) -> None:
        path = captured(tmp_path)
        row = session_row(path)
        assert row.startswith("○ | library | Cursor 2.1 | 2025-06-18 | 16 | 2 | 1.0ms | 1 unans")
        assert len(list((tmp_path / "cache/mcpproxy/summaries").glob("*.json"))) == 1
        capture = ListedCapture(path)
        capture.begin()
        assert capture.has_full_summary, "nothing is left to read"
        assert session_row(path) == row


class TestTraffic:
    """The messages of one capture."""

    def test_the_title_says_how_it_ended_and_who_talks(self, tmp_path: Path) -> None:
        place = TitleState(None, None, is_searching=False, record_choice="", order="", export_progress="")
        killed, ended = record(tmp_path / "a.mcpcap", conversation()), captured(tmp_path)
        for path, words in ((killed, "  ✝ killed  16 frames"), (ended, "  ○ exited 0  16 frames")):
            with understood(path) as reading:
                spans = title_spans(reading, place)
                assert "".join(span.text for span in spans if isinstance(span, Span)) == words
                sides = "".join(span.text for span in peer_spans(reading, None, 60))
                assert sides == "  Cursor 2.1 → library 0.6 · 2025-06-18"

    def test_rows_say_what_show_says(self, tmp_path: Path) -> None:
        with understood(captured(tmp_path)) as reading:
            rows = [text_of(reading, row) for row in range(len(reading.index))]
            shown = [
                (
                    row.direction.text,
                    "".join(span.text for span in row.subject).strip(),
                    row.id,
                    row.status.word if row.status else "",
                    row.details,
                )
                for row in rows
            ]
        assert shown[1][:3] == ("→", "initialize", "0")
        assert shown[4] == ("→", "tools/call search", "1", "", '{"n":1}')
        assert shown[5] == ("←", "tools/call search", "1", "ok", "found 1")
        assert shown[9][3:] == ("error -32602", "no such page")
        assert shown[16][1] == "stderr: warning: low on shelves"
        assert shown[-1][:2] == ("■", "server exited 0")

    def test_a_frame_without_a_byte_is_called_so(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x.mcpcap", [("header", header()), frame_record("s2c", b""), END])
        with understood(path) as reading:
            text = detail(reading, 1, "text")
            assert ["".join(span.text for span in line) for line in text.lines] == ["no bytes"]
            assert "content" not in "".join(span.text for line in text.exchange for span in line)

    def test_an_answer_that_is_empty_is_called_so(self, tmp_path: Path) -> None:
        cases = (
            ("tools/call", b'{"content":[]}', "ok with empty content"),
            ("tools/call", b'{"content":[{"type":"text","text":""}],"_meta":{"n":1}}', "ok with empty content"),
            ("tools/call", b"{}", "ok without content"),
            ("tools/call", b'{"content":[],"structuredContent":{}}', "ok"),
            ("tools/call", b'{"content":[{"type":"text","text":" "}]}', "ok"),
            ("tools/call", b'{"content":[{"type":"image","data":""}]}', "ok"),
            ("tools/call", b'{"content":5}', "ok"),
            ("tools/call", b"[]", "ok"),
            ("tools/call", b'{"content":[],"isError":true}', "tool error"),
            ("resources/read", b'{"contents":[]}', "ok with empty contents"),
            ("prompts/get", b'{"messages":null}', "ok with empty messages"),
            ("ping", b"{}", "ok"),
        )
        for number, (method, result, words) in enumerate(cases):
            asked = CALL.replace(b"tools/call", method.encode()) % (1, 1)
            answer = b'{"jsonrpc":"2.0","id":1,"result":%s}' % result
            path = record(
                tmp_path / f"{number}.mcpcap",
                [("header", header()), frame_record("c2s", asked), frame_record("s2c", answer), END],
            )
            reading = Reading(path)
            while not reading.has_ended:
                reading.step()
            for row in (1, 2):
                for width in (40, 80):
                    times = "".join(span.text for span in detail(reading, row, "exchange", 0, width).lines[0])
                    assert f" {words} ──" in times, (method, result)
                lines = ["".join(span.text for span in line) for line in detail(reading, row, "pretty").exchange]
                assert f"{'outcome':<10}{words}" in lines, (method, result)
            reading.close()
