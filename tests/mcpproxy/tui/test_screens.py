"""Every key of every screen does what its page says, on captures at rest and live, large, broken and hostile."""

from pathlib import Path

import pytest

from captures.listing import find_captures
from mcpproxy.tui.data import capture_list as list_module
from mcpproxy.tui.data.capture_list import CaptureList
from mcpproxy.tui.details.detail import detail
from tests.captures.samples import header
from tests.mcpproxy.tui.alone import Alone as Reading
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    captured,
    record,
    said,
)


class TestShelf:
    """What is known of each capture, while the list is drawn."""

    def test_looking_leaves_time_to_read_however_long_it_takes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As if every look took longer than what is between two.
        monkeypatch.setattr(list_module, "FIND_S", 0.0)
        for number in range(40):
            captured(tmp_path, calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        for _ in range(1000):
            capture_list.step()
        assert [capture.is_summed for capture in capture_list.captures] == [True] * 40
        capture_list.close()

    def test_what_somebody_looks_at_is_read_first(self, tmp_path: Path) -> None:
        for number in range(20):
            captured(tmp_path, calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        capture_list.step()
        capture_list.in_view = capture_list.captures[12:14]
        while not capture_list.captures[13].is_summed:
            capture_list.step()
        assert [capture.has_begun for capture in capture_list.captures] == [12 <= at <= 13 for at in range(20)]
        capture_list.close()

    def test_a_large_capture_holds_up_no_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(list_module, "PATIENCE", 5)
        monkeypatch.setattr(list_module, "STEP", 1 << 10)
        captured(tmp_path, "large", calls=500, stamp="20261122T101500Z-0000")
        for number in range(5):
            captured(tmp_path, f"small{number}", calls=1, stamp=f"20261121T1015{number:02}Z-0000")
        capture_list = CaptureList(lambda: find_captures(tmp_path))
        capture_list.step()
        large, *small = sorted(capture_list.captures, key=lambda capture: capture.path.parent.name)
        capture_list.in_view = [large, *small[:2]]
        while not all(capture.is_summed for capture in small[:2]) or not all(capture.has_begun for capture in small):
            capture_list.step()
        assert large.has_begun
        assert not large.is_summed
        capture_list.close()


class TestTraffic:
    """The messages of one capture."""

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
                tmp_path / f"{number}.mcpcap", [("header", header()), said("c2s", asked), said("s2c", answer), END]
            )
            reading = Reading(path)
            while not reading.has_ended:
                reading.step()
            for row in (1, 2):
                shown = detail(reading, row, "exchange")
                for part in (shown.lines, detail(reading, row, "pretty").exchange):
                    lines = ["".join(span.text for span in line) for line in part]
                    assert f"{'outcome':<10}{words}" in lines, (method, result)
            reading.close()
