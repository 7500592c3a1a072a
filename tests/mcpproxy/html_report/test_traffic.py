"""The rows of the traffic in a report."""

import time

import pytest

from analysis.reading import Reading
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from mcpproxy.html_report.blocks import Payloads
from mcpproxy.html_report.traffic import CaptureTraffic, Traffic
from tests.analysis.judged import step


@pytest.mark.parametrize(("still_open", "word"), [(True, "waiting for 1 min"), (False, "unanswered")])
def test_a_request_without_a_response_waits_as_long_as_its_capture_is_recorded(still_open: bool, word: str) -> None:
    traffic = Traffic(Payloads(), 100)
    reading = Reading()
    rows = CaptureTraffic(traffic, 0, reading.fold)
    rows.on_step(reading.feed(Record(0, "header", 0, {"name": "a", "wall_ns": time.time_ns() - 90_200_000_000})))
    raw = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    rows.on_step(step(reading, Frame(1, 0, "c2s", raw, judge(raw, "c2s"))))
    for last in reading.finish("open" if still_open else "killed"):
        rows.finish(last, is_whole=True)
    assert traffic.columns["word"][0].startswith(word)
    assert traffic.columns["is_bad"][0] == (not still_open)
