"""The aspect `sequence`: calls that come, go or move, and what has no order."""

from pathlib import Path

import msgspec

from analysis.comparison.change import AspectResult
from analysis.comparison.observe import observe
from analysis.comparison.options import ObserveOptions
from analysis.comparison.values.sequence_changes import compare_sequences
from analysis.comparison.values.sequence_record import CallName, CallRun, SequenceRecord
from tests.analysis.comparison.sides import Fill, written
from tests.analysis.store.capture_writer import CaptureWriter

Expected = list[tuple[str, str, int]]


def _record(folder: Path, name: str, fill: Fill) -> SequenceRecord:
    path = written(folder, name, fill)
    record = observe(name, [(name, path)], ObserveOptions(with_findings=False)).records["sequence"]
    return msgspec.json.decode(msgspec.json.encode(record), type=SequenceRecord)


def _compared(folder: Path, old: Fill, new: Fill) -> AspectResult:
    return compare_sequences(_record(folder, "old", old), _record(folder, "new", new))


def _calls(names: str) -> Fill:
    """Tool calls, each answered before the next; those in parentheses are in flight together."""

    def fill(capture: CaptureWriter) -> None:
        waiting: list[int] = []
        is_group = False
        for number, name in enumerate(names, 1):
            is_group = name == "(" or (is_group and name != ")")
            if name not in "()":
                capture.call(100 + number, number, name)
                waiting.append(number)
            if not is_group:
                for each in reversed(waiting):
                    capture.answer(100.5 + number, each, content=[])
                waiting = []

    return fill


def _found(result: AspectResult) -> Expected:
    return [(each.kind.id, each.subject.removeprefix("tools/call "), each.times) for each in result.changes]


def test_each_call_that_comes_goes_or_moves_is_one_change(tmp_path: Path) -> None:
    cases: tuple[tuple[str, str, Expected], ...] = (
        ("abc", "abc", []),
        ("abcb", "ac", [("sequence/missing", "b", 2)]),
        ("ac", "abcb", [("sequence/new", "b", 2)]),
        ("abab", "ababab", [("sequence/more-often", "a", 1), ("sequence/more-often", "b", 1)]),
        ("aaab", "ab", [("sequence/less-often", "a", 2)]),
        ("abc", "bca", [("sequence/moved", "a", 1)]),
        ("abcd", "dabc", [("sequence/moved", "d", 1)]),
        ("abcaef", "bcaaef", [("sequence/moved", "a", 1)]),
        ("ab", "ad", [("sequence/missing", "b", 1), ("sequence/new", "d", 1)]),
    )
    for old, new, expected in cases:
        assert _found(_compared(tmp_path, _calls(old), _calls(new))) == expected, (old, new)


def test_calls_in_flight_together_may_swap(tmp_path: Path) -> None:
    for old, new in (
        ("x(ab)y", "x(ba)y"),
        ("x(ab)y", "xbay"),
        ("xbay", "x(ab)y"),
        ("x(abab)y", "xababy"),
        ("x(abc)(de)y", "x(cab)(ed)y"),
    ):
        assert _found(_compared(tmp_path, _calls(old), _calls(new))) == [], (old, new)
    assert _found(_compared(tmp_path, _calls("x(ab)y"), _calls("x(a)y"))) == [("sequence/missing", "b", 1)]


def test_pings_and_the_number_of_polls_do_not_count(tmp_path: Path) -> None:
    def polls(count: int) -> Fill:
        def fill(capture: CaptureWriter) -> None:
            for number in range(1, count + 1):
                capture.ask(100 + number, number, "tasks/get", taskId="t")
                capture.answer(100.5 + number, number, taskId="t", status="working")
                capture.ask(100.6 + number, 100 + number, "ping")

        return fill

    assert _found(_compared(tmp_path, polls(2), polls(5))) == []


def test_places_show_the_request_and_messages_count(tmp_path: Path) -> None:
    (change,) = _compared(tmp_path, _calls("abcb"), _calls("ac")).changes
    assert change.message == "a call is no longer made: never instead of 2 times"
    assert (change.before, change.after, change.new) == (2, 0, None)
    assert change.old == ("old", 1, 6)


def _made(names: list[int], *, is_cut: bool = False, uncounted: int = 0) -> SequenceRecord:
    calls = [CallName("client", "tools/call", f"t{number}") for number in range(max(names) + 1)]
    runs = [CallRun(number, 1, False, 0, 1, frame) for frame, number in enumerate(names)]
    return SequenceRecord(["c"], calls, [names.count(number) for number in range(len(calls))], runs, is_cut, uncounted)


def test_what_cannot_be_aligned_is_counted_and_said() -> None:
    old, new = _made([0, 1, 2] * 100), _made([0, 2, 1] * 100 + [2])
    result = compare_sequences(old, new, max_steps=500)
    assert _found(result) == [("sequence/more-often", "t2", 1)]
    assert [(gap.what, gap.is_failure) for gap in result.gaps] == [("order of calls", False)]
    assert compare_sequences(_made([0]), _made([0], is_cut=True)).gaps
    incomplete = compare_sequences(_made([0]), _made([0, 1], uncounted=1))
    assert _found(incomplete) == []
    assert [gap.what for gap in incomplete.gaps] == ["calls on one side only"]
