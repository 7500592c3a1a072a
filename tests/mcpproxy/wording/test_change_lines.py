"""The values of a change in words."""

from analysis.comparison.change import Change
from analysis.comparison.kinds.findings import FINDING_NEW_NOTE
from analysis.comparison.kinds.latency import SLOWER
from analysis.comparison.kinds.values import VALUE_CHANGED
from mcpproxy.wording.change_lines import worded_line
from mcpproxy.wording.latencies import latency_of, ratio_text


def test_counts_of_findings_and_latencies_are_in_words() -> None:
    line = worded_line(Change(FINDING_NEW_NOTE, "rule", "it is broken", "", 0, 2))
    assert line is not None
    assert (line.old, line.new) == ("not reported", "reported 2 times")
    line = worded_line(
        Change(SLOWER, "ping", "it is slower", "", {"p95_ms": 1.5, "calls": 1}, {"p95_ms": 2, "calls": 3})
    )
    assert line is not None
    assert (line.old, line.new) == ("p95 1.5 ms of 1 call", "p95 2.0 ms of 3 calls")
    assert worded_line(Change(VALUE_CHANGED, "tool", "it changed", "", 0, 2)) is None


def test_only_what_a_change_of_latency_has_is_a_latency() -> None:
    for value in (None, 1, {}, {"p50_ms": 1}, {"p50_ms": "1", "calls": 2}, {"p50_ms": float("inf"), "calls": 2}):
        assert latency_of(value) is None


def test_ratios_have_two_digits() -> None:
    intervals = {
        (1.83, 2.0): "×1.8–2.0",
        (0.0514, 0.5): "×0.051–0.50",
        (9.96, 1234.5): "×10–1,234",
        (2, 1e9): "×2.0–>100,000",
    }
    for interval, text in intervals.items():
        assert ratio_text(interval) == text
    assert ratio_text(None) == ""
