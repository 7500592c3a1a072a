"""The aspect `outcomes`: what is reported if calls end differently, and what is not."""

from pathlib import Path

from tests.analysis.comparison.sides import Fill, compared, kinds
from tests.analysis.store.capture_writer import CaptureWriter
from tests.rows import row


def _works(capture: CaptureWriter) -> None:
    capture.call(100, 1, "search", q="x", n=1.0)
    capture.answer(110, 1, content=[])


def _is_refused(capture: CaptureWriter) -> None:
    capture.call(100, 7, "search", n=1, q="x")
    capture.refuse(110, 7, -32602, "no such index")


def _is_refused_with_another_code(capture: CaptureWriter) -> None:
    capture.call(100, 7, "search", n=1, q="x")
    capture.refuse(110, 7, -32603, "no such index")


def _is_refused_in_other_words(capture: CaptureWriter) -> None:
    capture.call(100, 7, "search", n=1, q="x")
    capture.refuse(110, 7, -32602, "unknown index")


def _fails(capture: CaptureWriter) -> None:
    capture.call(100, 7, "search", n=1, q="x")
    capture.fail(110, 7, "no such index")


def _waits(capture: CaptureWriter) -> None:
    capture.call(100, 1, "search", q="x", n=1)


def _waits_until_the_client_has_closed(capture: CaptureWriter) -> None:
    _waits(capture)
    capture.record(200, "eof", dir="c2s", by="sender")
    capture.refuse(201, 1, -32000, "Connection closed")


def _is_cancelled(capture: CaptureWriter) -> None:
    capture.call(100, 1, "search", q="x", n=1)
    capture.say(110, "c2s", method="notifications/cancelled", params={"requestId": 1})


def _is_abandoned(capture: CaptureWriter) -> None:
    capture.call(100, 1, "search", q="x", n=1)
    capture.say(110, "c2s", method="notifications/cancelled", params={"requestId": 1, "reason": "timed out"})


def _works_once_of_twice(capture: CaptureWriter) -> None:
    _works(capture)
    capture.call(120, 2, "search", q="x", n=1)
    capture.fail(130, 2, "busy")


def _has_other_arguments(capture: CaptureWriter) -> None:
    capture.call(100, 1, "search", q="another")
    capture.fail(110, 1, "no such index")


def test_what_a_server_says_as_its_client_closes_is_not_quoted(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, _works, _waits_until_the_client_has_closed).changes
    assert "closed" not in str(change.after)
    assert change.new is not None
    assert change.new.frame == 4


def test_each_way_to_end_differently_is_one_change(tmp_path: Path) -> None:
    for old, new, expected in (
        (_works, _works, []),
        (_works, _is_refused, ["outcome/now-fails"]),
        (_works, _fails, ["outcome/now-fails"]),
        (_works, _waits, ["outcome/now-unanswered"]),
        (_works, _waits_until_the_client_has_closed, ["outcome/now-unanswered"]),
        (_works, _is_abandoned, ["outcome/now-unanswered"]),
        (_works, _is_cancelled, ["outcome/now-cancelled"]),
        (_works, _works_once_of_twice, ["outcome/sometimes-fails"]),
        (_works, _has_other_arguments, []),
        (_is_refused, _works, ["outcome/now-works"]),
        (_is_refused, _is_refused, []),
        (_is_refused, _is_refused_with_another_code, ["outcome/error-changed"]),
        (_is_refused, _is_refused_in_other_words, ["outcome/error-text-changed"]),
        (_is_refused, _fails, ["outcome/error-changed"]),
        (_is_cancelled, _works, []),
        (_works_once_of_twice, _works, []),
        (_works_once_of_twice, _works_once_of_twice, []),
    ):
        with row(old.__name__, new.__name__):
            assert kinds(compared(tmp_path, old, new), "outcome") == expected


def test_a_change_names_the_call_and_both_frames(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, _works, _is_refused).changes
    assert (change.subject, change.before, change.after) == (
        "tools/call search",
        "result",
        "error -32602: no such index",
    )
    assert change.old is not None
    assert change.new is not None
    assert (change.old.capture, change.old.session, change.old.frame) == ("old.mcpcap", 1, 5)
    assert (change.new.capture, change.new.session, change.new.frame) == ("new.mcpcap", 1, 5)


def _calls(count: int, failed: int, start: int = 0) -> Fill:
    def fill(capture: CaptureWriter) -> None:
        for number in range(count):
            capture.call(100 + number, number + 1, "search", n=start + number)
            if number < failed:
                capture.fail(100 + number, number + 1, f"failed {number}")
            else:
                capture.answer(100 + number, number + 1, content=[])

    return fill


def test_equal_failures_of_many_requests_are_one_change(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, _calls(30, 0), _calls(30, 12)).changes
    assert (change.kind.id, change.times) == ("outcome/now-fails", 12)


def test_error_rates_are_compared_if_no_request_is_equal_and_there_are_enough(tmp_path: Path) -> None:
    for old, new, expected in (
        (_calls(40, 1), _calls(40, 20, 1000), ["outcome/error-rate-higher"]),
        (_calls(40, 20), _calls(40, 1, 1000), ["outcome/error-rate-lower"]),
        (_calls(4, 0), _calls(4, 2, 1000), []),
        (_calls(40, 10), _calls(40, 12, 1000), []),
    ):
        assert kinds(compared(tmp_path, old, new), "outcome") == expected


def test_a_filter_selects_calls_by_their_outcome(tmp_path: Path) -> None:
    comparison = compared(tmp_path, _calls(30, 5), _calls(30, 8), "has:error")
    assert ("outcomes", 5, 8) in comparison.compared
