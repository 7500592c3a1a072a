"""The rows of a report's traffic list."""

import time

import pytest

from analysis.reading import Reading
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from mcpproxy.html_report.blocks import Payloads
from mcpproxy.html_report.traffic import CaptureTraffic, Traffic
from mcpproxy.wording.facts import Fact
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


def test_a_cancelled_request_its_cancellation_and_its_late_response_say_what_show_says() -> None:
    traffic = Traffic(Payloads(), 100)
    reading = Reading()
    rows = CaptureTraffic(traffic, 0, reading.fold)
    rows.on_step(reading.feed(Record(0, "header", 0, {"name": "a"})))
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow"}}'
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"timed out"}}'
    answered = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}'
    for seq, raw in enumerate((asked % 1, cancelled % 1, answered, asked % 2, cancelled % 2), 1):
        way: Direction = "s2c" if raw is answered else "c2s"
        rows.on_step(step(reading, Frame(seq, seq * 10**9, way, raw, judge(raw, way))))
    for last in reading.finish("killed"):
        rows.finish(last, is_whole=True)
    facts = dict(zip(traffic.columns["seq"], traffic.columns["facts"], strict=True))
    assert [facts[seq] for seq in range(1, 6)] == [
        (
            Fact("answered", "by frame 3 after 2.0 s: ok, 1.0 s late"),
            Fact("abandoned", "after 1.0 s by frame 2: timed out", is_bad=True),
        ),
        (Fact("cancels", "tools/call #1 slow (frame 1), abandoned after 1.0 s", is_bad=True),),
        (Fact("answers", "frame 1 after 2.0 s: ok, 1.0 s late"),),
        (
            Fact("outcome", "abandoned after 1.0 s: timed out", is_bad=True),
            Fact("cancelled", "by frame 5"),
        ),
        (Fact("cancels", "tools/call #2 slow (frame 4), abandoned after 1.0 s", is_bad=True),),
    ]


def test_a_request_says_which_extension_has_its_method_with_and_without_a_response() -> None:
    traffic = Traffic(Payloads(), 100)
    reading = Reading()
    rows = CaptureTraffic(traffic, 0, reading.fold)
    rows.on_step(reading.feed(Record(0, "header", 0, {"name": "a"})))
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"skills/list"}'
    answered = b'{"jsonrpc":"2.0","id":1,"result":{"skills":[]}}'
    for seq, raw in enumerate((asked % 1, answered, asked % 2), 1):
        way: Direction = "s2c" if raw is answered else "c2s"
        rows.on_step(step(reading, Frame(seq, seq * 10**9, way, raw, judge(raw, way))))
    extension = Fact("extension", "Skills (io.modelcontextprotocol/skills)")
    facts = dict(zip(traffic.columns["seq"], traffic.columns["facts"], strict=True))
    assert extension in facts[1]
    assert facts[3] == (extension,)
