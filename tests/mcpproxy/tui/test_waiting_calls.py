"""Which calls wait, and rows with the waiting requests first."""

import time
from array import array
from pathlib import Path

from analysis.summary import Summary
from mcpproxy.tui.data.call_kinds import CallKind, CallKinds
from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.data.columns import OPEN, Calls
from mcpproxy.tui.data.waiting_calls import WaitingCalls
from mcpproxy.tui.data.waiting_first_rows import WaitingFirstRows
from mcpproxy.tui.screens.longest_wait import session_with_longest_wait
from tests.mcpproxy.tui.stage import captured

KINDS = [
    CallKind("client", "tools/call", "search"),
    CallKind("server", "elicitation/create", None),
    CallKind("client", "subscriptions/listen", None),
]


def calls_of(*kinds: int) -> tuple[Calls, WaitingCalls]:
    """Open calls of these kinds, one in every tenth row."""
    calls, known = Calls(), CallKinds()
    known.all = KINDS
    for number, kind in enumerate(kinds):
        calls.request.append(10 * number)
        calls.kind.append(kind)
        calls.outcome.append(OPEN)
    return calls, WaitingCalls(calls, known)


def settle(calls: Calls, number: int) -> None:
    calls.outcome[number] = 0
    calls.settled.append(number)


def test_calls_wait_from_their_request_to_their_end() -> None:
    calls, waiting = calls_of(0, 0, 0)
    assert (waiting.count, waiting.oldest) == (0, None)
    waiting.note_changes()
    assert (waiting.count, waiting.oldest) == (3, 0)
    settle(calls, 0)
    settle(calls, 2)
    settle(calls, 2)  # a response after a cancellation
    waiting.note_changes()
    assert (waiting.count, waiting.oldest, [*waiting.request_rows()]) == (1, 1, [10])
    assert [waiting.is_waiting(number) for number in (0, 1, 2, 99)] == [False, True, False, False]


def test_the_next_longest_begins_again_after_the_last() -> None:
    calls, waiting = calls_of(0, 0, 0)
    settle(calls, 1)
    waiting.note_changes()
    assert [waiting.next_longest(number) for number in (-1, 0, 1, 2)] == [0, 2, 2, 0]


def test_requests_of_the_server_count_only_if_no_call_of_the_client_waits() -> None:
    calls, waiting = calls_of(1, 0, 1)
    waiting.note_changes()
    assert (waiting.count, waiting.oldest) == (1, 1)
    assert [[*waiting.server_requests(number)] for number in (-1, 0, 1, 2)] == [[0, 2], [2], [2], []]
    assert waiting.is_only_client_call_before(2)
    assert not waiting.is_only_client_call_before(1)
    assert [*waiting.request_rows()] == [0, 10, 20]
    settle(calls, 1)
    waiting.note_changes()
    assert (waiting.count, waiting.oldest) == (2, 0)


def test_requests_that_stay_open_as_long_as_the_client_wants_do_not_wait() -> None:
    _, waiting = calls_of(2, 0)
    waiting.note_changes()
    assert (waiting.count, waiting.oldest) == (1, 1)


def test_waiting_rows_come_first_and_all_others_keep_their_order() -> None:
    selected = array("I", range(0, 100, 10))
    rows = WaitingFirstRows(selected)
    assert len(rows) == 0
    rows.renew([5, 30, 80, 200])
    assert [*rows] == [30, 80, 0, 10, 20, 40, 50, 60, 70, 90]
    assert (rows.line_of(80), rows.line_of(0), rows.line_of(5)) == (1, 2, None)
    selected.append(110)
    assert len(rows) == 10, "it changes only when it is renewed"
    rows.renew([])
    assert [*rows] == [*selected]


def test_the_session_at_the_cursor_comes_first_if_a_call_hangs_in_it(tmp_path: Path) -> None:
    now_ns = time.time_ns()

    def listed(name: str, waited_s: float | None, *, is_live: bool = True) -> ListedCapture:
        capture = ListedCapture(captured(tmp_path, name))
        since_ns = None if waited_s is None else int((3600 - waited_s) * 1_000_000_000)
        capture.is_live = is_live
        capture.summary = Summary(wall_ns=now_ns - 3600 * 1_000_000_000, waiting=1, waiting_since_ns=since_ns)
        return capture

    idle, quick, slow, slower = listed("a", None), listed("b", 0.0), listed("c", 30), listed("d", 60)
    ended = listed("e", 900, is_live=False)
    captures = [idle, quick, slow, slower, ended]
    chosen = [session_with_longest_wait(selected, captures) for selected in (idle, quick, slow, slower, ended, None)]
    assert chosen == [slower, slower, slow, slower, slower, slower]
    assert session_with_longest_wait(idle, [idle, ended]) is None
