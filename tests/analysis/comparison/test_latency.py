"""The aspect latency: what is slower, what cannot be told, and what must never be an alarm."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from analysis.comparison.change import AspectResult, Place
from analysis.comparison.kind import FailOn
from analysis.comparison.kinds.latency import KINDS
from analysis.comparison.latency.latency import LatencyAspect
from analysis.comparison.latency.latency_decision import MIN_DIFFERENCE_NS, MIN_RATIO
from analysis.comparison.latency.latency_record import (
    MAX_KINDS,
    MAX_TIMES,
    CallLatencies,
    LatencyKey,
    LatencyObserver,
    LatencyRecord,
    LatencySample,
)
from analysis.comparison.options import CompareOptions
from analysis.reading import Reading
from tests.analysis.comparison import sides
from tests.analysis.comparison.sides import Fill
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.talk import Talk

MS = 1_000_000
PLACE = Place("a.mcpcap", 1, 3)
SLOWER: frozenset[FailOn] = frozenset(("slower",))


def latencies(name: str, times_ns: list[int], *, is_first: bool = False) -> CallLatencies:
    return CallLatencies(LatencyKey("client", "tools/call", name, is_first), len(times_ns), times_ns, PLACE)


def side(*calls: CallLatencies, inexact: int = 0) -> LatencyRecord:
    return LatencyRecord(list(calls), inexact, 0)


def around(ms: float, count: int = 30, seed: int = 1) -> list[int]:
    random = Random(seed)
    return [int(ms * MS * random.lognormvariate(0, 0.1)) for _ in range(count)]


def compared(old: LatencyRecord, new: LatencyRecord, percent: float | None = None) -> AspectResult:
    return LatencyAspect().compare(old, new, CompareOptions(slower_percent=percent))


def verdicts(result: AspectResult) -> dict[str, str]:
    return {row.name: row.verdict for row in result.latencies}


def test_a_slower_and_a_faster_call() -> None:
    old = side(latencies("search", around(10)), latencies("fetch", around(40)), latencies("add", around(5)))
    new = side(
        latencies("search", around(30, seed=2)), latencies("fetch", around(20, seed=3)), latencies("add", around(5))
    )
    result = compared(old, new)
    assert verdicts(result) == {
        "tools/call search": "slower",
        "tools/call fetch": "faster",
        "tools/call add": "same",
    }
    slower, faster = result.changes
    assert (slower.kind.id, slower.subject) == ("latency/slower", "tools/call search")
    assert slower.fails(SLOWER)
    assert (faster.kind.id, faster.fails(SLOWER), str(faster.severity)) == ("latency/faster", False, "note")
    assert slower.before["calls"] == 30
    assert 9 < slower.before["p50_ms"] < 11
    assert 27 < slower.after["p50_ms"] < 33
    assert slower.old == PLACE
    assert result.compared == (("timed calls", 90, 90),)
    row = result.latencies[0]
    assert row.p50_interval is not None
    assert 2.5 < row.p50_interval[0] < 3 < row.p50_interval[1] < 3.6
    assert row.p95_interval is None


def test_the_pages_of_the_kinds_name_the_limits() -> None:
    limits = f"more than {round((MIN_RATIO - 1) * 100)} % and {MIN_DIFFERENCE_NS / MS} ms"
    assert all(limits in kind.why for kind in KINDS)


def test_a_change_is_the_same_when_it_is_found_again() -> None:
    prints = {
        compared(side(latencies("search", around(10))), side(latencies("search", around(30, seed=seed))))
        .changes[0]
        .fingerprint
        for seed in range(2, 5)
    }
    assert len(prints) == 1


def test_a_side_and_itself_in_any_order_differ_in_nothing() -> None:
    calls = [latencies(str(number), around(number + 1, 5 * number + 1, number)) for number in range(20)]
    result = compared(side(*calls), side(*reversed(calls)))
    assert result.changes == ()
    assert set(verdicts(result).values()) == {"same", "cannot tell"}
    assert compared(side(*calls), side(*calls)) == result


def test_swapped_sides_have_the_opposite_verdict() -> None:
    slow, quick = side(latencies("search", around(30))), side(latencies("search", around(10)))
    assert verdicts(compared(quick, slow)) == {"tools/call search": "slower"}
    assert verdicts(compared(slow, quick)) == {"tools/call search": "faster"}


@pytest.mark.parametrize(("new_ms", "fails"), [(11.5, False), (13, True)])
def test_a_slowdown_fails_only_if_it_is_certainly_above_the_limit(new_ms: float, fails: bool) -> None:
    old, new = side(latencies("search", around(10, 400))), side(latencies("search", around(new_ms, 400, seed=2)))
    (change,) = compared(old, new, percent=20).changes
    assert change.fails(SLOWER) == fails
    assert change.kind.id == ("latency/slower" if fails else "latency/slower-within-limit")
    assert compared(old, new).changes[0].fails(SLOWER)


@pytest.mark.parametrize(("old_ms", "new_ms"), [(100, 105), (0.1, 0.4)])
def test_what_is_too_small_to_matter_is_no_change(old_ms: float, new_ms: float) -> None:
    old, new = side(latencies("ping", around(old_ms, 1000))), side(latencies("ping", around(new_ms, 1000, seed=2)))
    result = compared(old, new)
    assert result.changes == ()
    assert verdicts(result) == {"tools/call ping": "same"}


def test_only_the_slowest_calls_are_slower() -> None:
    random = Random(5)
    new = [50 * time if random.random() < 0.12 else time for time in around(10, 400)]
    (change,) = compared(side(latencies("search", around(10, 400, seed=2))), side(latencies("search", new))).changes
    assert change.kind.id == "latency/tail-slower"
    assert "p95_ms" in change.after
    assert change.fails(SLOWER)


def test_few_calls_are_a_gap_that_says_how_many_are_needed() -> None:
    result = compared(side(latencies("search", around(10, 5))), side(latencies("search", around(90, 5))))
    assert result.changes == ()
    assert verdicts(result) == {"tools/call search": "cannot tell"}
    (gap,) = result.gaps
    assert gap.what == "latency of tools/call search"
    assert "medians (p50) takes at least 8 calls on each side, and 95th percentiles (p95) 78;" in gap.reason
    assert not gap.is_failure
    assert gap.needed_by == frozenset()


def test_many_kinds_of_calls_share_one_gap() -> None:
    calls = [latencies(str(number), around(10, 3)) for number in range(50)]
    (gap,) = compared(side(*calls), side(*calls)).gaps
    assert gap.what == "latency"  # a count would give a test case another name in each run


def test_what_each_session_does_once_is_no_gap_if_there_is_more() -> None:
    once = latencies("open", around(10, 1), is_first=True)
    both = side(once, latencies("search", around(10)))
    assert compared(both, both).gaps == ()
    (gap,) = compared(side(once), side(once)).gaps
    assert gap.what == "latency of tools/call open"


def test_kinds_that_are_too_small_do_not_make_the_others_less_certain() -> None:
    few = [latencies(str(number), around(10, 3)) for number in range(500)]
    old, new = latencies("search", around(10, 12)), latencies("search", around(40, 12, seed=2))
    assert len(compared(side(old, *few), side(new, *few)).changes) == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (side(), side(), "neither side has a response whose latency counts"),
        (
            side(latencies("a", around(1))),
            side(inexact=9),
            "the new side has no response whose latency counts: its times",
        ),
        (side(latencies("a", around(1))), side(latencies("b", around(1))), "no call on one side has the same method"),
    ],
)
def test_nothing_to_compare_is_a_gap_that_only_slower_needs(
    old: LatencyRecord, new: LatencyRecord, reason: str
) -> None:
    (gap,) = compared(old, new).gaps
    assert gap.what == "latency"
    assert gap.reason.startswith(reason)
    assert gap.needed_by == SLOWER
    assert not gap.is_failure


def test_many_short_sessions_are_not_slower_than_a_long_one_because_first_calls_are() -> None:
    first, later = around(900, 40), around(10, 40)
    old = side(latencies("search", first[:1], is_first=True), latencies("search", later))
    new = side(latencies("search", first, is_first=True), latencies("search", around(10, 40, seed=2)))
    result = compared(old, new)
    assert result.changes == ()
    assert verdicts(result) == {"tools/call search": "same"}


def test_first_calls_are_compared_if_there_are_enough_sessions() -> None:
    old = side(latencies("search", around(100, 20), is_first=True), latencies("search", around(10)))
    new = side(latencies("search", around(500, 20), is_first=True), latencies("search", around(10)))
    (change,) = compared(old, new).changes
    assert change.subject == "tools/call search (first of a session)"


def test_a_clock_that_shows_milliseconds_does_not_make_one_of_them_a_change() -> None:
    random = Random(3)
    old = [MS * int(random.random() < 0.3) for _ in range(400)]
    new = [MS * int(random.random() < 0.7) for _ in range(400)]
    assert compared(side(latencies("ping", old)), side(latencies("ping", new))).changes == ()


@pytest.mark.parametrize(
    "times_ns", [[0] * 100, [(1 << 62) - 1] * 100, [-1] * 100, [0, (1 << 62) - 1] * 50, [1 << 80] * 100]
)
def test_any_stamps_are_compared(times_ns: list[int]) -> None:
    hostile, usual = side(latencies("a", times_ns)), side(latencies("a", around(10, 100)))
    assert compared(hostile, hostile).changes == ()
    for old, new in ((hostile, usual), (usual, hostile)):
        (row,) = compared(old, new).latencies
        assert row.verdict in ("slower", "faster", "cannot tell")


def test_a_record_survives_json() -> None:
    record = side(latencies("search", around(10)), latencies("sür\u200b", around(10), is_first=True), inexact=2)
    assert msgspec.json.decode(msgspec.json.encode(record), type=LatencyAspect.record) == record


class Watched(Talk):
    """Passes every call that is over to an observer."""

    def __init__(self) -> None:
        self.observer = LatencyObserver()
        super().__init__()
        self.observer.begin("a.mcpcap", Reading())

    def call(self, method: str, ms: int, sender: str = "client", **params: Any) -> None:
        there, back = ("c2s", "s2c") if sender == "client" else ("s2c", "c2s")
        number = self.seq
        self.say(there, id=number, method=method, params=params)  # type: ignore[arg-type]
        self.seq += ms - 1
        answered = self.say(back, id=number, result={}).answered  # type: ignore[arg-type]
        assert answered is not None
        self.observer.on_call(answered)


def test_calls_are_collected_by_sender_method_and_name() -> None:
    talk = Watched()
    for ms in (500, 10, 12):
        talk.call("tools/call", ms, name="search")
    talk.call("ping", 3)
    talk.call("ping", 4, sender="server")
    talk.observer.end()
    record = talk.observer.observed()
    assert [(calls.key, calls.count, calls.times_ns) for calls in record.calls] == [
        (LatencyKey("client", "tools/call", "search", True), 1, [500 * MS]),
        (LatencyKey("client", "tools/call", "search", False), 2, [10 * MS, 12 * MS]),
        (LatencyKey("client", "ping", "", True), 1, [3 * MS]),
        (LatencyKey("server", "ping", "", True), 1, [4 * MS]),
    ]
    assert record.calls[0].place == Place("a.mcpcap", 1, 1)


def test_names_and_their_number_are_bounded() -> None:
    talk = Watched()
    talk.call("tools/call", 2, name="x" * 5000)
    for number in range(MAX_KINDS + 5):
        talk.call("tools/call", 2, name=str(number))
    record = talk.observer.observed()
    assert len(record.calls) == MAX_KINDS
    assert record.omitted_count == 6
    assert len(record.calls[0].key.name) == 200
    assert any("6 calls are of more kinds" in gap.reason for gap in compared(record, side()).gaps)


def test_a_sample_is_bounded_even_and_the_same_every_time() -> None:
    samples = [LatencySample(), LatencySample()]
    for sample in samples:
        for number in range(3 * MAX_TIMES):
            sample.add(number, number)
    kept = samples[0].in_order()
    assert kept == samples[1].in_order() == sorted(kept)
    assert MAX_TIMES // 2 <= len(kept) <= MAX_TIMES
    assert samples[0].count == 3 * MAX_TIMES
    assert max(after - before for before, after in pairwise(kept)) <= 8


def test_a_sample_keeps_the_share_of_what_happens_at_every_eighth_call() -> None:
    sample = LatencySample()
    for number in range(16 * MAX_TIMES):
        sample.add(number, 100 if number % 8 == 0 else 1)
    kept = sample.in_order()
    assert 0.1 < kept.count(100) / len(kept) < 0.15


def test_a_sample_is_in_the_order_of_the_requests() -> None:
    sample = LatencySample()
    for key in (3, 1, 2):
        sample.add(key, 10 * key)
    assert sample.in_order() == [10, 20, 30]


def _calls(ms: float, *, is_exact: bool = True) -> Fill:
    """Forty equal calls that take about as long as given."""
    random = Random(4)

    def fill(writer: CaptureWriter) -> None:
        at_ms = 100.0
        for number in range(1, 41):
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "search"}}
            response = {"jsonrpc": "2.0", "id": number, "result": {"content": []}}
            writer.raw(at_ms, "c2s", json.dumps(request).encode(), time_is_exact=is_exact)
            at_ms += ms * random.lognormvariate(0, 0.1)
            writer.raw(at_ms, "s2c", json.dumps(response).encode(), time_is_exact=is_exact)
            at_ms += 1

    return fill


def test_captures_are_compared_and_each_change_names_the_first_requests(tmp_path: Path) -> None:
    comparison = sides.compared(tmp_path, _calls(10), _calls(30))
    (change,) = [change for change in comparison.changes if change.kind.id.startswith("latency/")]
    assert (change.kind.id, change.subject) == ("latency/slower", "tools/call search")
    assert change.old == Place("old.mcpcap", 1, 6)
    assert [row.verdict for row in comparison.latencies] == ["slower", "cannot tell"]


def test_an_imported_log_without_exact_times_has_no_latencies(tmp_path: Path) -> None:
    comparison = sides.compared(tmp_path, _calls(10), _calls(10, is_exact=False), "name:search")
    assert [(gap.what, gap.reason) for gap in comparison.gaps if "latency" in gap.what] == [
        ("latency", "the new side has no response whose latency counts: its times are not exact")
    ]
