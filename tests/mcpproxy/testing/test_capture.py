"""The public reading of a capture: what `Capture`, its calls and its findings say."""

from pathlib import Path

import pytest

from analysis.filter import FilterError
from mcpproxy.testing import Calls, Capture

CAPTURES = Path(__file__).parents[2] / "corpus/captures"


@pytest.fixture(scope="module")
def demo() -> Capture:
    return Capture(CAPTURES / "demo.mcpcap")


def test_calls_of_a_tool_have_what_was_asked_and_answered(demo: Capture) -> None:
    call, *_ = demo.calls("add")
    assert (call.method, call.name, call.arguments) == ("tools/call", "add", {"a": 19, "b": 23})
    assert (call.text, call.outcome, call.is_error, call.error) == ('{"sum": 42}', "result", False, None)
    assert call.latency_ms is not None
    assert demo.calls("add")[:1].p50_ms == demo.calls("add")[:1].max_ms == call.latency_ms


def test_calls_are_selected_by_method_and_by_filter_in_the_order_of_their_requests(demo: Capture) -> None:
    frames = [call.frame for call in demo.calls()]
    assert frames == sorted(frames)
    assert {call.method for call in demo.calls(method="tools/list")} == {"tools/list"}
    failed = demo.calls(only="has:error")
    assert [call for call in demo.calls() if call.is_error] == list(failed.errors)
    assert {call.outcome for call in failed} == {"error", "tool_error"}
    assert demo.calls("slow_echo", only="latency>999s") == []
    with pytest.raises(FilterError):
        demo.calls(only="metod:x")


def test_percentiles_are_those_of_stats(demo: Capture) -> None:
    import duckdb

    latencies_ms = [call.latency_ms for call in demo.calls() if call.call.is_timely]
    with duckdb.connect() as connection:
        row = connection.execute(
            "select quantile_cont(ms, 0.5), quantile_cont(ms, 0.95), max(ms) from (select unnest(?) as ms)",
            [latencies_ms],
        ).fetchone()
    calls = demo.calls()
    assert row is not None
    assert (calls.p50_ms, calls.p95_ms, calls.max_ms) == pytest.approx(row, abs=1e-5)


def test_percentile_without_a_latency_fails_the_assertion_and_says_why(demo: Capture) -> None:
    with pytest.raises(AssertionError, match="there are 0 calls of tools/call no_such_tool"):
        _ = demo.calls("no_such_tool").p95_ms
    with pytest.raises(IndexError, match="there are 0 calls of tools/call no_such_tool"):
        _ = demo.calls("no_such_tool")[0]


def test_calls_equal_lists_and_slices_are_calls(demo: Capture) -> None:
    calls = demo.calls()
    assert calls[:0] == []
    assert isinstance(calls[1:], Calls)
    assert calls[1:] == list(calls)[1:] != calls
    assert calls != 3
    assert sum(calls.outcomes.values()) == len(calls)


def test_capture_says_who_spoke_which_revision_and_which_tools_there_are(demo: Capture) -> None:
    assert demo.server is not None
    assert demo.client is not None
    assert (demo.server.name, demo.client.name) == ("mcpproxy-demo", "mcpproxy-demo-client")
    assert demo.revision == "2026-07-28"
    assert demo.tools["add"]["inputSchema"]["type"] == "object"
    assert "warning: the notebook was written by an older version" in demo.stderr
    assert demo.messages[0].method == "initialize"


def test_every_capture_of_the_corpus_can_be_read_or_is_refused_as_such() -> None:
    from captures.errors import CaptureError

    for path in sorted(CAPTURES.glob("*.mcpcap")):
        capture = Capture(path)
        try:
            calls = capture.calls()
        except CaptureError:
            continue
        assert repr(calls).isprintable(), path
        for call in calls:
            assert repr(call).isprintable(), path
            assert isinstance(call.arguments, dict), path
            assert isinstance(call.text, str), path
        assert isinstance(capture.stderr, str), path
        assert isinstance(capture.tools, dict), path
        assert capture.calls().outcomes.total() == len(calls), path
