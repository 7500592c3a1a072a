"""The view `turns` and `Turns` say the same about any calls."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.turnless_calls import TurnlessCalls
from analysis.conversation.turns import Turn, Turns, call_of_turn
from analysis.reading import Reading
from analysis.store.load import Loader
from analysis.store.turn_figures import CLIENTS_SQL, ClientFigures
from tests.analysis.client_captures import (
    LATER_TURN,
    THREAD,
    TURN,
    ClientCapture,
    codex_meta,
    vscode_meta,
    write_codex,
    write_others,
)
from tests.analysis.store import spare
from tests.analysis.store.capture_writer import MS, OPENED

METAS = (
    codex_meta(TURN, "call"),
    codex_meta(LATER_TURN, "call"),
    {"x-codex-turn-metadata": {"turn_id": TURN}},
    vscode_meta(TURN),
    vscode_meta(TURN, "other conversation"),
    {"progressToken": 1},
    None,
)
SERVERS = ("files", "search", "tickets")
ENDS = ("result", "tool error", "error", "cancelled", "late", "none")
CALLS = st.tuples(
    st.sampled_from(range(len(SERVERS))),
    st.integers(10, 60),
    st.integers(0, 40),
    st.sampled_from(METAS),
    st.sampled_from(ENDS),
)


def in_python(paths: list[Path]) -> list[tuple[Any, ...]]:
    turns = Turns()
    for path in paths:
        reading = Reading(path)
        calls = {call.number: call for step in reading.to_end() for call in step.changed}
        for call in calls.values():
            assert reading.fold.name is not None
            assert reading.fold.wall_ns is not None
            turns.add(
                call.client_ids,
                call_of_turn(call, reading.fold.name, reading.fold.wall_ns, reading.fold.open_until_ns(call)),
            )
    return sorted(map(row_of, turns), key=str)


def row_of(turn: Turn) -> tuple[Any, ...]:
    has_waited = any(call.ended_ns is not None for call in turn.calls)
    return (
        *turn.key,
        len(turn.calls),
        sorted(turn.servers),
        turn.failure_count,
        turn.waited_ns / MS if has_waited else None,
        (turn.started_ns - OPENED) // 1_000,
    )


def in_sql(paths: list[Path]) -> list[tuple[Any, ...]]:
    with spare.empty() as connection:
        with Loader(connection) as loader:
            for path in paths:
                loader.load(path)
        return sorted(
            connection.execute(
                "select client, coalesce(client_session, ''), turn_id, calls, servers, failed, waited_ms, "
                f"epoch_us(time) - {OPENED // 1_000} from turns"
            ).fetchall(),
            key=str,
        )


def write_calls(folder: Path, calls: list[Any]) -> list[Path]:
    captures = [ClientCapture(folder, server, number, "client") for number, server in enumerate(SERVERS)]
    events: list[tuple[int, int, int, str, Any]] = []
    for number, (server, begin, lasts, meta, end) in enumerate(calls, 1):
        events += [(begin, number, server, "begin", meta), (begin + lasts, number, server, end, None)]
    for at, number, server, event, meta in sorted(events, key=lambda event: (event[0], event[1], event[3] != "begin")):
        capture, at_ms = captures[server], at - server
        match event:
            case "begin":
                named = {} if meta is None else {"_meta": meta}
                capture.ask(at_ms, number, "tools/call", name="find", arguments={}, **named)
            case "result":
                capture.answer(at_ms, number, content=[])
            case "tool error":
                capture.fail(at_ms, number, "no")
            case "error":
                capture.refuse(at_ms, number, -32603, "no")
            case "cancelled" | "late":
                params = {"requestId": number, "reason": "timed out"}
                capture.say(at_ms, "c2s", method="notifications/cancelled", params=params)
                if event == "late":
                    capture.answer(at_ms, number, content=[])
    return [capture.close(100) for capture in captures]


@pytest.mark.costly("loads three captures for each example")
@given(st.lists(CALLS, max_size=12))
def test_sql_and_python_say_the_same_of_turns(tmp_path_factory: Any, calls: list[Any]) -> None:
    paths = write_calls(tmp_path_factory.mktemp("calls"), calls)
    assert in_sql(paths) == in_python(paths)


def test_a_turn_on_three_servers(tmp_path: Path) -> None:
    paths = write_codex(tmp_path)
    assert (
        in_sql(paths)
        == in_python(paths)
        == [
            ("Codex", THREAD, TURN, 4, ["files", "search", "tickets"], 2, 750.0, 100_000),
            ("Codex", THREAD, LATER_TURN, 1, ["search"], 0, 10.0, 5_000_000),
        ]
    )


def test_calls_without_a_turn_are_counted_by_the_name_that_users_give_the_client(tmp_path: Path) -> None:
    paths = [*write_codex(tmp_path), *write_others(tmp_path)]
    for number, (server, name, calls) in enumerate(
        [("wiki", "codex-mcp-client", 4), ("shop", "agent", 3), ("bank", "", 2)], len(paths)
    ):
        capture = ClientCapture(tmp_path, server, number, name)
        for _ in range(calls):
            capture.begin(100, None)
        paths.append(capture.close())
    turnless = TurnlessCalls()
    for path in paths:
        for call in {call.number: call for step in Reading(path).to_end() for call in step.changed}.values():
            turnless.add(call)
    with spare.empty() as connection:
        with Loader(connection) as loader:
            for path in paths:
                loader.load(path)
        figures = [ClientFigures(*row) for row in connection.execute(CLIENTS_SQL).fetchall()]
    counts = {client.client or "": client.turnless_calls for client in figures if client.turnless_calls}
    assert counts == turnless.by_client()
    assert (counts["Codex"], counts["agent"], counts[""], counts["Claude Code"]) == (4, 3, 2, 1)
    assert "codex-mcp-client" not in counts


def test_figures_come_before_what_may_be_long() -> None:
    with spare.empty() as connection:
        names = [column[0] for column in connection.execute("select * from turns").description]
    figures = {"calls", "server_count", "failed", "waited_ms"}
    assert max(map(names.index, figures)) < min(map(names.index, ("turn_id", "servers", "client_session")))
