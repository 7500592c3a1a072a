"""Hostile captures: bounded records, and never an error."""

from pathlib import Path

import pytest

from analysis.comparison import outcomes as outcomes_module
from analysis.comparison import sample
from analysis.comparison.compare import compare
from analysis.comparison.encoding import decode_side, encode_side
from analysis.comparison.options import CompareOptions
from analysis.comparison.sample import Sample
from tests.analysis.comparison.sides import Fill, kinds, observed, written
from tests.analysis.store.capture_writer import CaptureWriter

DEEP = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":%b}}'


def _hostile(capture: CaptureWriter) -> None:
    arguments = (
        b"[" * 900 + b"]" * 900,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"1" + b"0" * 5_000,
        b"1e400",
        b"NaN",
        b'"\\ud800"',
        b"\xff",
        b'{"a":1,"a":2}',
        b'"' + b"x" * 100_000 + b'"',
    )
    for number, value in enumerate(arguments):
        capture.raw(100 + number, "c2s", (DEEP % value).replace(b'"id":1', b'"id":%d' % (number + 1)))
        capture.answer(100 + number, number + 1, content=[])
    for number, name in enumerate((7, None, ["x"], {"a": 1}, "", "x" * 100_000, "\ud800", "\x1b[2J"), 50):
        capture.ask(200 + number, number, "tools/call", name=name, arguments={})
        capture.refuse(200 + number, number, -32602, "\ud800\x1b" * 10_000)
    capture.ask(300, 90, "m" * 100_000)
    capture.say(301, "s2c", id=90, error={"code": 1e300, "message": ["no"]})
    capture.ask(302, 91, "tools/call", name="search", arguments=[])
    capture.say(303, "s2c", id=91, result={"isError": True, "content": [{"type": "text", "text": 7}, 5]})
    capture.say(304, "c2s", id=92, method="tools/call", params=[1])
    capture.say(305, "s2c", id=92, error="no")


def test_any_message_can_be_compared_saved_and_loaded(tmp_path: Path) -> None:
    paths = [written(tmp_path, name, fill) for name, fill in (("a", _hostile), ("b", lambda _: None))]
    hostile, empty = (observed(path, with_findings=False) for path in paths)
    assert compare(hostile, observed(paths[0], with_findings=False), CompareOptions()).changes == ()
    compare(hostile, empty, CompareOptions())
    lines = [*encode_side(hostile)]
    assert decode_side(lines) == hostile
    assert sum(map(len, lines)) < 100_000


def test_of_too_many_requests_both_sides_keep_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes_module, "MAX_REQUESTS", 20)
    monkeypatch.setattr(outcomes_module, "MAX_CALLS", 20)

    def calls(numbers: range, failing: int) -> Fill:
        def fill(capture: CaptureWriter) -> None:
            for at, number in enumerate(numbers):
                capture.call(100 + at, at + 1, f"tool-{number}", n=number)
                if number % failing:
                    capture.answer(100 + at, at + 1, content=[])
                else:
                    capture.fail(100 + at, at + 1, "no")

        return fill

    forwards, backwards, failing = (
        observed(written(tmp_path, name, fill), with_findings=False)
        for name, fill in (
            ("a", calls(range(300), 1000)),
            ("b", calls(range(299, -1, -1), 1000)),
            ("c", calls(range(300), 1)),
        )
    )
    assert len(forwards.records["outcomes"].requests) == 20
    comparison = compare(forwards, backwards, CompareOptions())
    assert kinds(comparison, "outcome") == []
    assert {"error rates of some calls", "outcomes of some requests"} <= {gap.what for gap in comparison.gaps}
    # The handshake and tool-0, which fails on both sides, may be among the requests that are kept.
    assert len(kinds(compare(forwards, failing, CompareOptions()), "outcome")) >= 18


def test_a_sample_keeps_the_smallest_digests_whatever_came_first() -> None:
    digests = [f"{number * 7919 % 1000:03}" for number in range(1000)]
    samples = []
    for order in (digests, digests[::-1], sorted(digests), sorted(digests, reverse=True)):
        kept: Sample[list[str]] = Sample(10)
        for digest in order:
            entry = kept.entry(digest, list)
            if entry is not None:
                entry.append(digest)
        assert [*kept.kept()] == sorted(digests)[:10]
        samples.append(kept)
    assert all(sample.common_ceiling(one.ceiling, None) >= "010" for one in samples)  # type: ignore[operator]
    assert sample.common_ceiling(None, None) is None
