"""Who used the time: the view is compared with counted milliseconds, in random and in handwritten conversations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.protocol.extensions import ENDLESS_METHODS
from captures.identity import path_id
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.store.test_views_integration import CORPUS, Base, loaded
from tests.examples import examples


def times(*paths: Path) -> list[dict[str, Any]]:
    with loaded(paths) as base:
        return base.rows("session_times")


def parts(path: Path) -> dict[str, Any]:
    """The figures of a capture that has one session."""
    (row,) = times(path)
    return {name: value for name, value in row.items() if name.endswith("_ms") or name == "unanswered"}


@pytest.fixture
def one(tmp_path: Path) -> CaptureWriter:
    """A handshake: the server responds after 10 ms, and the client is ready 5 ms later."""
    written = CaptureWriter(tmp_path / "one.mcpcap", "weather", 1)
    written.handshake()
    return written


def sample(one: CaptureWriter, at_ms: float, id_: int) -> int:
    return one.say(at_ms, "s2c", id=id_, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})


def sampled(one: CaptureWriter, at_ms: float, id_: int) -> int:
    content = {"type": "text", "text": "x"}
    return one.say(at_ms, "c2s", id=id_, result={"role": "assistant", "content": content, "model": "m"})


# ---- handwritten


def test_the_handshake_counts_and_overlapping_calls_count_once(one: CaptureWriter) -> None:
    one.call(100, 1, "a")
    one.call(120, 2, "b")
    one.answer(150, 1, content=[])
    one.answer(180, 2, content=[])
    wanted = {"session_ms": 1000, "server_ms": 10 + 80, "client_ms": 910, "waiting_ms": 0, "stalled_ms": 0}
    assert parts(one.close(1000)) == {**wanted, "unanswered": 0}


def test_what_the_server_waits_for_in_a_call_is_the_time_of_the_client(one: CaptureWriter) -> None:
    one.call(100, 1, "a")
    sample(one, 120, 7)
    sampled(one, 170, 7)
    one.answer(180, 1, content=[])
    wanted = {"session_ms": 200, "server_ms": 10 + 30, "client_ms": 160, "waiting_ms": 50, "stalled_ms": 0}
    assert parts(one.close(200)) == {**wanted, "unanswered": 0}


def test_a_ping_of_the_server_makes_nobody_wait(one: CaptureWriter) -> None:
    one.call(100, 1, "a")
    one.say(110, "s2c", id=7, method="ping")
    one.say(150, "c2s", id=7, result={})
    one.answer(180, 1, content=[])
    found = parts(one.close(200))
    assert (found["server_ms"], found["waiting_ms"]) == (10 + 80, 0)


def test_a_server_that_answers_waits_no_more_for_what_was_not_answered(one: CaptureWriter) -> None:
    one.call(100, 1, "a")
    sample(one, 120, 7)
    one.answer(180, 1, content=[])
    one.call(300, 2, "a")
    one.answer(340, 2, content=[])
    found = parts(one.close(500))
    assert (found["server_ms"], found["waiting_ms"]) == (10 + 20 + 40, 60)


def test_a_call_without_an_answer_is_open_to_the_end_of_the_session(one: CaptureWriter) -> None:
    one.call(100, 1, "hangs")
    found = parts(one.close(5000))
    assert (found["session_ms"], found["server_ms"], found["unanswered"]) == (5000, 10 + 4900, 1)


def test_a_call_that_is_cancelled_is_open_until_then(one: CaptureWriter) -> None:
    one.call(100, 1, "slow")
    one.say(300, "c2s", method="notifications/cancelled", params={"requestId": 1, "reason": "timeout"})
    one.answer(900, 1, content=[])
    found = parts(one.close(1000))
    assert (found["server_ms"], found["unanswered"]) == (10 + 200, 0)


@pytest.mark.parametrize("method", sorted(ENDLESS_METHODS))
def test_a_request_that_only_listens_keeps_nobody_busy(one: CaptureWriter, method: str) -> None:
    one.ask(100, 1, method)
    path = one.close(1000)
    found = parts(path)
    assert (found["server_ms"], found["client_ms"], found["unanswered"]) == (10, 990, 0)
    with loaded([path]) as base:
        assert base.ask("select open_ms from calls where method = ?", method) == [(None,)]
        assert base.ask("select total_ms from latency where method = ?", method) == [(0,)]


def test_stalls_are_counted_separately(one: CaptureWriter) -> None:
    seq = one.call(100, 1, "a")
    one.record(150, "stall", dir="c2s", of=seq, waited_ns=50_000_000, cause="receiver")
    one.answer(170, 1, content=[])
    wanted = {"session_ms": 200, "server_ms": 10 + 20, "client_ms": 120, "waiting_ms": 0, "stalled_ms": 50}
    assert parts(one.close(200)) == {**wanted, "unanswered": 0}


def test_nothing_waits_longer_than_the_capture_ran(one: CaptureWriter) -> None:
    seq = one.call(100, 1, "a")
    one.record(150, "stall", dir="c2s", of=seq, waited_ns=2**63 - 1, cause="receiver")
    one.answer(170, 1, content=[])
    assert parts(one.close(300))["stalled_ms"] == 150


def test_a_session_in_which_nothing_is_asked_is_the_client_s(tmp_path: Path) -> None:
    found = parts(CaptureWriter(tmp_path / "empty.mcpcap", "weather", 1).close(100))
    wanted = {"session_ms": 100, "server_ms": 0, "client_ms": 100, "waiting_ms": 0, "stalled_ms": 0}
    assert found == {**wanted, "unanswered": 0}


def test_http_ends_what_it_carried(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "http.mcpcap", "weather", 1, transport="http")
    with loaded([one.close(100)]) as base:
        tables = ["captures", "sessions", "exchanges", "http_exchanges"]
        assert [base.ask(f"select count(*) from {name}") for name in tables] == [[(1,)], [(0,)], [(0,)], [(0,)]]
        base.ask(
            """
            insert into sessions by name
            select capture, 1 as session, 'peer' as delimited, 'http' as transport, 'ready' as state, 0 as opened_ns,
                40 * 1000000 as last_ns, true as observed_start, 4 as frames, 4 as requests
            from captures
            """
        )
        for exchange, outcome, ended_ms in ((1, "failed", 20), (2, "unanswered", 30), (3, "unanswered", 60)):
            base.ask(
                """
                insert into exchanges by name
                select capture, 1 as session, $1 as request, 'tools/call' as method, $2 as name, 'client' as asked_by,
                    $2 as outcome, 10 * 1000000 as started_ns, true as time_is_exact, $3 * 1000000 as failed_ns,
                    1 as request_bytes, 0 as progress, false as is_abandoned, false as is_app_call, $1 as exchange,
                    0 as redirects
                from captures
                """,
                exchange,
                outcome,
                ended_ms if outcome == "failed" else None,
            )
            base.ask(
                """
                insert into http_exchanges by name
                select capture, $1 as exchange, 0 as conn, 0 as started_ns, $2 * 1000000 as ended_ns, 0 as events,
                    true as is_stream, false as by_proxy
                from captures
                """,
                exchange,
                ended_ms,
            )
        # The second ended before the last message of its session, which might have been its response.
        assert base.ask("select open_ms from calls order by request") == [(10,), (30,), (50,)]
        (row,) = base.rows("session_times")
        assert (row["session_ms"], row["server_ms"], row["unanswered"]) == (60, 50, 2)


# ---- random


class Span(NamedTuple):
    """A time span in ms since the capture opened; without an end, it lasts until the session ends."""

    kind: str
    begin: int
    end: int | None


def counted(spans: list[Span], opened: int, ended: int) -> dict[str, int]:
    """The milliseconds of each side, counted one by one."""
    sums = {"session_ms": ended - opened, "server_ms": 0, "client_ms": 0, "waiting_ms": 0, "stalled_ms": 0}
    for ms in range(opened, ended):
        kinds = {span.kind for span in spans if span.begin <= ms < (ended if span.end is None else span.end)}
        if "stall" in kinds:
            sums["stalled_ms"] += 1
        elif "wait" in kinds:
            sums["waiting_ms"] += 1
            sums["client_ms"] += 1
        elif "call" in kinds:
            sums["server_ms"] += 1
        else:
            sums["client_ms"] += 1
    return sums


ACTS = ("call", "answer", "sample", "sampled", "cancel", "listen", "ping", "stall", "notify")


def spoken(path: Path, acts: list[tuple[str, int, int]]) -> list[Span]:
    """Write a conversation; each act has a kind, a pause before it, and an index into the open requests."""
    one = CaptureWriter(path, "weather", 1)
    one.handshake()
    now, spans = 15, [Span("call", 0, 10)]
    calls: dict[int, int] = {}
    samples: dict[int, int] = {}
    answers: list[int] = []
    for number, (act, pause, which) in enumerate(acts, 1):
        now += pause
        of = sorted(samples if act == "sampled" else calls)
        chosen = of[which % len(of)] if of else 0
        if act == "call":
            one.call(now, number, "a")
            calls[number] = now
        elif act == "stall":
            seq = one.call(now, number, "a")
            spans.append(Span("stall", now, now + which))
            now += which
            one.record(now, "stall", dir="c2s", of=seq, waited_ns=which * 1_000_000, cause="receiver")
            calls[number] = now
        elif act == "answer" and of:
            one.answer(now, chosen, content=[])
            spans.append(Span("call", calls.pop(chosen), now))
            answers.append(now)
        elif act == "cancel" and of:
            one.say(now, "c2s", method="notifications/cancelled", params={"requestId": chosen})
            spans.append(Span("call", calls.pop(chosen), now))
        elif act == "sample":
            sample(one, now, number)
            samples[number] = now
        elif act == "sampled" and of:
            sampled(one, now, chosen)
            spans.append(Span("wait", samples.pop(chosen), now))
        elif act == "listen":
            one.ask(now, number, ("subscriptions/listen", "events/stream")[number % 2])
        elif act == "ping":
            one.say(now, "s2c", id=number, method="ping")
        else:
            one.say(now, "s2c", method="notifications/message", params={"level": "info", "data": "x"})
    one.close(now + 7)
    spans += [Span("call", begin, None) for begin in calls.values()]
    spans += [
        Span("wait", begin, min((at for at in answers if at > begin), default=None)) for begin in samples.values()
    ]
    return [*spans, Span("session", 0, now + 7)]


CONVERSATION = st.lists(
    st.tuples(st.sampled_from(ACTS), st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=25
)


# Creating a database takes longer than querying it, so one holds many conversations.
@examples(3)
@given(st.lists(CONVERSATION, min_size=1, max_size=10))
def test_any_conversation_is_divided_as_its_milliseconds_are(
    tmp_path_factory: pytest.TempPathFactory, conversations: list[list[tuple[str, int, int]]]
) -> None:
    place = tmp_path_factory.mktemp("spoken")
    wanted = {}
    for number, acts in enumerate(conversations):
        path = place / f"{number}.mcpcap"
        *spans, session = spoken(path, acts)
        assert session.end is not None
        unanswered = sum(span.end is None for span in spans if span.kind == "call")
        wanted[path_id(path)] = {**counted(spans, session.begin, session.end), "unanswered": unanswered}
    assert {
        row["capture"]: {name: row[name] for name in wanted[row["capture"]]} for row in times(*sorted(place.iterdir()))
    } == {capture: pytest.approx(figures) for capture, figures in wanted.items()}


# ---- the whole corpus


@pytest.fixture(scope="module")
def corpus() -> Iterator[Base]:
    with loaded(CORPUS) as base:
        yield base


def test_every_session_is_divided_without_a_rest(corpus: Base) -> None:
    rows = corpus.rows("session_times")
    sessions = corpus.ask("select capture, session from sessions order by all")
    assert sorted((row["capture"], row["session"]) for row in rows) == sessions
    assert len(rows) > 10
    for row in rows:
        assert row["server_ms"] + row["client_ms"] + row["stalled_ms"] == pytest.approx(row["session_ms"], abs=0.002)
        assert 0 <= row["waiting_ms"] <= row["client_ms"] + 0.001
        assert min(row["server_ms"], row["client_ms"], row["stalled_ms"]) >= 0
    assert sum(row["server_ms"] for row in rows) > 0


def test_calls_are_open_for_as_long_as_their_answer_took(corpus: Base) -> None:
    assert corpus.ask("select count(*) from calls where state = 'answered' and open_ms <> latency_ms") == [(0,)]
    assert corpus.ask("select count(*) from calls where until_ns is null or until_ns < started_ns") == [(0,)]
    assert corpus.ask("select count(*) from calls") == corpus.ask("select count(*) from exchanges")
