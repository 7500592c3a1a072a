"""What is missing in a capture: damage makes a comparison fail, and what is lost is said next to the result."""

from pathlib import Path

from analysis.comparison.change import Comparison, Gap
from analysis.comparison.compare import compare
from analysis.comparison.kind import FailOn
from analysis.comparison.losses import ALL_WORDS
from analysis.comparison.observe import observe
from analysis.comparison.options import CompareOptions, ObserveOptions
from captures.integrity import inspect_file
from mcpproxy.wording.changes import verdict_text
from tests.analysis.comparison.sides import observed, written
from tests.analysis.store.capture_writer import CaptureWriter
from tests.rows import row

TOO_DEEP = b"[" * 5_000 + b"]" * 5_000
FAULT_ON_DISK = {"lost": {"s2c": {"frames": 32}}, "reason": "ENOSPC", "from_ns": 1, "to_ns": 2}


def _whole(writer: CaptureWriter) -> None:
    writer.ask(100, 1, "tools/list")
    writer.answer(110, 1, tools=[])
    writer.call(120, 2, "search", q="x")
    writer.answer(130, 2, content=[])


def _comparison(old: Path, new: Path) -> Comparison:
    return compare(observed(old, with_findings=False), observed(new, with_findings=False), CompareOptions())


def _failures(comparison: Comparison) -> list[Gap]:
    return [gap for gap in comparison.gaps if gap.is_failure]


def test_any_record_that_is_missing_or_repeated_makes_a_comparison_fail(tmp_path: Path) -> None:
    whole = written(tmp_path, "whole", _whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) - 1):
        for what, changed in (
            ("missing", [*lines[:number], *lines[number + 1 :]]),
            ("repeated", [*lines[: number + 1], *lines[number:]]),
        ):
            other = tmp_path / "other.mcpcap"
            other.write_bytes(b"".join(changed))
            assert inspect_file(other).state == "damaged"
            for sides in ((whole, other), (other, whole)):
                with row(what, number, sides[0].stem):
                    comparison = _comparison(*sides)
                    assert _failures(comparison)[0].what in ("all of the new side", "all of the old side")
                    assert verdict_text(comparison).startswith("could not be compared")
    assert not _failures(_comparison(whole, whole))


def test_what_is_lost_is_in_the_verdict_and_fails_those_who_need_all(tmp_path: Path) -> None:
    whole = written(tmp_path, "whole", _whole)

    def with_gap(writer: CaptureWriter) -> None:
        _whole(writer)
        writer.record(140, "gap", **FAULT_ON_DISK)

    def with_deep_frame(writer: CaptureWriter) -> None:
        _whole(writer)
        writer.raw(140, "s2c", TOO_DEEP)

    for fill, what, clause in (
        (with_gap, "lost records", "1 record is lost on the new side"),
        (with_deep_frame, "what could not be examined", "1 frame could not be examined on the new side"),
    ):
        with row(what):
            comparison = _comparison(whole, written(tmp_path, "other", fill))
            (gap,) = (gap for gap in comparison.gaps if gap.needed_by == ALL_WORDS)
            assert (gap.what, gap.reason, gap.is_failure) == (what, clause, False)
            verdict = verdict_text(comparison)
            assert verdict.startswith("nothing changed in what was recorded: ")
            assert verdict.endswith(f"; {clause}")
    words: set[FailOn] = {"breaking", "may-break", "outcome", "finding", "value", "slower"}
    assert words == ALL_WORDS


def test_a_lost_answer_to_a_list_or_a_handshake_fails_even_on_both_sides(tmp_path: Path) -> None:
    def deep_list(writer: CaptureWriter) -> None:
        writer.call(90, 2, "search", q="x")
        writer.answer(95, 2, content=[])
        writer.ask(100, 1, "tools/list")
        writer.raw(110, "s2c", TOO_DEEP)

    def second_list(writer: CaptureWriter) -> None:
        _whole(writer)
        writer.ask(200, 3, "tools/list")
        writer.raw(210, "s2c", TOO_DEEP)

    def second_handshake(writer: CaptureWriter) -> None:
        _whole(writer)
        writer.ask(200, 3, "initialize", protocolVersion="2025-06-18", capabilities={})
        writer.raw(210, "s2c", TOO_DEEP)

    for fill, what in (
        (deep_list, "tools"),
        (second_list, "newest tools"),
        (second_handshake, "newest capabilities and instructions"),
    ):
        with row(what):
            capture = written(tmp_path, "other", fill)
            assert [gap.what for gap in _failures(_comparison(capture, capture))] == [what]
    writer = CaptureWriter(tmp_path / "handshake.mcpcap", "weather")
    writer.ask(0, 0, "initialize", protocolVersion="2025-06-18", capabilities={})
    writer.raw(10, "s2c", TOO_DEEP)
    _whole(writer)
    capture = writer.close()
    comparison = _comparison(capture, capture)
    assert [gap.what for gap in _failures(comparison)] == ["capabilities and instructions"]
    assert len([gap for gap in comparison.gaps if gap.what.startswith("capabilities")]) == 1


def test_an_answer_that_is_in_no_capture_is_no_failure_on_both_sides(tmp_path: Path) -> None:
    def unanswered(writer: CaptureWriter) -> None:
        writer.call(90, 2, "search", q="x")
        writer.answer(95, 2, content=[])
        writer.ask(100, 1, "tools/list")

    capture = written(tmp_path, "other", unanswered)
    assert not _failures(_comparison(capture, capture))


def test_a_recording_that_was_killed_is_a_warning(tmp_path: Path) -> None:
    whole = written(tmp_path, "whole", _whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    killed, cut = tmp_path / "killed.mcpcap", tmp_path / "cut.mcpcap"
    killed.write_bytes(b"".join(lines[:-1]))
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    for path, warning in (
        (killed, "The recording was killed: its end may be missing."),
        (cut, "It ends inside a record: the recording was killed, or the file was cut, and the end is missing."),
    ):
        with row(path.stem):
            comparison = _comparison(whole, path)
            assert comparison.new.warnings == (warning,)
            assert not _failures(comparison)
    assert observed(whole).summary.warnings == ()


def test_sides_without_lists_and_calls_do_not_sound_complete(tmp_path: Path) -> None:
    capture = written(tmp_path, "handshake", lambda _: None)
    assert verdict_text(_comparison(capture, capture)).endswith("; no list and no call of a tool was recorded")


def test_a_capture_without_a_message_among_others_is_a_warning(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "crash.mcpcap", "weather")
    writer.record(5, "process", event="ended", status=1)
    captures = [(path.name, path) for path in (written(tmp_path, "whole", _whole), writer.close())]
    warnings = observe("both", captures, ObserveOptions(with_findings=False)).summary.warnings
    assert warnings == ("crash.mcpcap: It has no message (the server exited with 1).",)
