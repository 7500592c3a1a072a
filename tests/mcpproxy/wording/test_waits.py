"""What is said about requests that wait."""

import pytest

from mcpproxy.wording import waits
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.units import local_time

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("count", "title", "wide", "narrow"),
    [
        (1, "1 waiting 14.4s", "1 wait 14.4s", "…14.4s"),
        (2, "2 waiting, oldest 14.4s", "2 wait 14.4s", "2…14.4s"),
        (1204, "1,204 waiting, oldest 14.4s", "1,204 wait 14.4s", "1204…14.4s"),
    ],
)
def test_the_number_and_the_oldest(count: int, title: str, wide: str, narrow: str) -> None:
    ns = 14_400_000_000
    assert waits.short_waiting_text(count, ns) == title
    assert waits.shortest_waiting_text(count, ns, 16) == wide
    assert waits.shortest_waiting_text(count, ns, 9) == narrow


def test_a_wait_is_bad_once_clients_give_up() -> None:
    assert [waits.waiting_role(seconds * SECOND_NS) for seconds in (1, 4, 5)] == ["warm", "warm", "bad"]


@pytest.mark.parametrize(
    ("state", "channel", "text", "is_bad"),
    [
        ("sleeping", "pipe_read", "71 node sleeps: it reads from a pipe", False),
        ("sleeping", "strange_wait", "71 node sleeps in strange_wait", False),
        ("sleeping", "", "71 node sleeps", False),
        ("running", "pipe_read", "71 node is running", False),
        ("stopped", "do_signal_stop", "71 node is stopped: a signal has suspended it (SIGCONT continues it)", True),
        ("gone", "", "71 node has ended", True),
    ],
)
def test_what_a_process_is_doing(state: str, channel: str, text: str, is_bad: bool) -> None:
    assert waits.process_fact(71, "node", state, channel) == Fact("process", text, is_bad)


def test_how_much_a_process_that_runs_has_run() -> None:
    fact = waits.process_fact(71, "node", "running", "", 12_300_000_000)
    assert fact.text == "71 node is running; so far it has used 12.3s of processor time"


def test_names_of_processes_are_sanitised_and_cut() -> None:
    fact = waits.process_fact(71, "a\x1b[2J" + "b" * 100_000, "sleeping", "\x07" * 100_000)
    assert "\x1b" not in fact.text
    assert "\x07" not in fact.text
    assert len(fact.text) < 200


@pytest.mark.parametrize(
    ("status", "is_stream", "is_over", "events", "text"),
    [
        (None, False, False, 0, "not begun: the server has sent no status"),
        (200, False, False, 0, "200, but its body has not ended"),
        (200, True, False, 0, "200, its stream is open: no event so far"),
        (200, True, False, 3, "200, its stream is open: 3 events, the last 2.1s ago"),
        (202, False, True, 0, "202, ended; the answer can only come on another stream"),
        (None, False, True, 0, "ended without a response; the answer can only come on another stream"),
    ],
)
def test_how_far_an_http_response_has_come(
    status: int | None, is_stream: bool, is_over: bool, events: int, text: str
) -> None:
    ago_ns = 2_100_000_000 if events else None
    fact = waits.http_wait_fact(
        status, is_stream=is_stream, is_over=is_over, events=events, is_counted=True, ago_ns=ago_ns
    )
    assert fact.text == text


@pytest.mark.parametrize(
    ("ending", "remark", "text"),
    [
        ("client", "server exited 0", "the client disconnected"),
        ("server", "server exited 1", "the server exited 1"),
        ("server", "the server ended", "the server ended"),
        ("signal", "ended by a signal", "the session ended"),
        (None, "", "the session ended"),
    ],
)
def test_what_ended_a_session(ending: str | None, remark: str, text: str) -> None:
    assert waits.session_end_text(ending, remark) == text


def test_what_ended_a_wait_and_when() -> None:
    wall_ns = 1_700_000_000 * SECOND_NS
    fact = waits.ended_wait_fact(14_400_000_000, "the server exited 1", wall_ns)
    assert fact.text == f"14.4s, until the server exited 1, at {local_time(wall_ns)}"


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    assert waits.clock_time(1 << 90) == ""
    assert waits.ended_wait_fact(SECOND_NS, "it ended", 1 << 90).text == "1.0s, until it ended"
    assert waits.wait_fact(SECOND_NS, 1 << 90) == Fact("waiting", "for 1.0s")
