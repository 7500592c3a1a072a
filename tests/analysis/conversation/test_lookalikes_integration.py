"""Clients without session ids that share an address and a program: in turn, in parallel, behind a gateway."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import analysis
from analysis.conversation.session import Session
from tests.analysis.http_trace import ASKED, SERVED, HttpTrace, notification, request, result
from tests.analysis.traces import check, checked, grave
from tests.mcpproxy.cli.typed import mcpproxy


def client(trace: HttpTrace, ports: list[int], calls: int = 2) -> Iterator[None]:
    """A correct client, one step at a time; it sends each message from the next of its ports, or from a new one."""
    sent = 0

    def post(body: object) -> int:
        nonlocal sent
        sent += 1
        return trace.post(body, peer=f"127.0.0.1:{ports[sent % len(ports)]}" if ports else "")

    exchange = post(request(0, "initialize", **ASKED))
    yield
    trace.answer(exchange, result(0, **SERVED))
    yield
    exchange = post(notification("notifications/initialized"))
    yield
    trace.answer(exchange, status="202 Accepted")
    exchange = post(request(1, "tools/list"))
    yield
    trace.answer(exchange, result(1, tools=[{"name": "dig", "inputSchema": {"type": "object"}}]))
    for id_ in range(2, 2 + calls):
        yield
        exchange = post(request(id_, "tools/call", name="dig", arguments={}, _meta={"progressToken": id_}))
        yield
        trace.stream(exchange)
        trace.event(exchange, notification("notifications/progress", progressToken=id_, progress=1))
        yield
        trace.event(exchange, result(id_, content=[{"type": "text", "text": "dug"}]))
        trace.end(exchange)


def together(clients: list[Iterator[None]], at_once: int, seed: int) -> None:
    """Run the clients in random order, at most `at_once` at a time, until all have ended."""
    chance, waiting, running = random.Random(seed), [*clients], list[Iterator[None]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0))
        going = chance.choice(running)
        if next(going, "ended") == "ended":
            running.remove(going)


def sessions_of(trace: HttpTrace) -> list[Session]:
    """The sessions at the end of the trace."""
    checker, _ = checked(trace.case())
    return checker.fold.routing.sessions()


WAYS: dict[str, Callable[[int], list[int]]] = {
    "a connection each": lambda number: [4000 + number],
    "two connections each": lambda number: [4000 + 2 * number, 4001 + 2 * number],
    "a connection for each message": lambda number: [],
    "the connections of a gateway": lambda number: [4000, 4001, 4002, 4003, 4004],
}


@pytest.mark.parametrize(
    ("way", "count", "at_once", "seeds"),
    [
        *[(way, 6, 3, 3) for way in WAYS],
        ("the connections of a gateway", 60, 20, 1),
        *[pytest.param(way, 60, 20, 1, marks=pytest.mark.soak) for way in list(WAYS)[:-1]],
    ],
)
def test_of_correct_clients_at_once_none_is_blamed(way: str, count: int, at_once: int, seeds: int) -> None:
    for seed in range(seeds):
        trace = HttpTrace()
        together([client(trace, WAYS[way](number)) for number in range(count)], at_once, seed)
        assert not grave(check(trace.case())), seed
        assert any(session.is_guess for session in sessions_of(trace)), seed


@pytest.mark.parametrize("way", ["a connection each", "a connection for each message"])
def test_clients_in_turn_are_restarts_and_no_guesses(way: str) -> None:
    trace = HttpTrace()
    together([client(trace, WAYS[way](number)) for number in range(60)], 1, 0)
    sessions = sessions_of(trace)
    assert len(sessions) == 60
    assert not any(session.is_guess for session in sessions)
    assert not grave(check(trace.case()))


def test_a_client_that_is_alone_is_judged_as_before() -> None:
    trace = HttpTrace()
    for _ in client(trace, [4000]):
        pass
    trace.answer(trace.post(request(3, "tools/list"), peer="127.0.0.1:4000"), result(3, tools=[]))
    assert [one.rule for one in check(trace.case()) if one.level > 0] == ["id/duplicate-request"]


def test_of_clients_that_begin_at_once_a_session_id_tells_each_from_the_others() -> None:
    trace = HttpTrace()
    first, second = (trace.post(request(0, "initialize", **ASKED), peer=f"127.0.0.1:{port}") for port in (1, 2))
    for exchange in (first, second):
        trace.answer(exchange, result(0, **SERVED), Mcp_Session_Id=f"1868a90c-4b8a-4f6e-9c55-{exchange}")
        posted = trace.post(notification("notifications/initialized"), session=f"1868a90c-4b8a-4f6e-9c55-{exchange}")
        trace.answer(posted, status="202 Accepted")
    assert [session.is_guess for session in sessions_of(trace)] == [False, False]


def test_a_stream_that_goes_on_shows_that_an_initialize_is_no_restart() -> None:
    trace = HttpTrace()
    for _ in client(trace, [4000], calls=0):
        pass
    trace.stream(trace.post(request(2, "tools/call", name="dig", arguments={}), peer="127.0.0.1:4001"))
    trace.answer(trace.post(request(0, "initialize", **ASKED), peer="127.0.0.1:4002"), result(0, **SERVED))
    assert [session.is_guess for session in sessions_of(trace)] == [True, True]


def test_a_column_says_that_a_session_is_a_guess(tmp_path: Path) -> None:
    trace = HttpTrace()
    together([client(trace, WAYS["a connection each"](number)) for number in range(3)], 3, 0)
    path = tmp_path / "several.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    with analysis.open(path) as tables:
        assert tables.sql("select distinct delimited from sessions").fetchall() == [("guess",)]


def test_every_command_says_that_sessions_are_guesses(tmp_path: Path) -> None:
    trace = HttpTrace()
    together([client(trace, WAYS["a connection each"](number)) for number in range(3)], 3, 0)
    path = tmp_path / "several.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    said = "3 sessions of clients that cannot be told apart"
    for command in ("check", "stats"):
        assert said in mcpproxy(command, path).stderr.decode(), command
    assert said in mcpproxy("show", path).stdout.decode()
