"""Which query finds the calls of a turn, and in which captures."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.conversation.client_ids import ClientIds
from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.data.turn_query import REACH_NS, TurnQuery, figures_text, turn_query
from mcpproxy.tui.rows.row_ids import ids_at
from tests.analysis.store.capture_writer import OPENED
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.turn_captures import THREAD, TRACE, TURN, write_turns

CALL_ROW = 4


@contextmanager
def read(path: Path) -> Iterator[InProcessReading]:
    reading = InProcessReading(path)
    try:
        while reading.step():
            pass
        yield reading
    finally:
        reading.close()


def query_of(path: Path, ids: ClientIds, listed: list[Path]) -> TurnQuery | None:
    with read(path) as reading:
        return turn_query(reading, CALL_ROW, ids, [ListedCapture(other) for other in listed])


def test_a_call_has_the_ids_that_its_client_gave_it(tmp_path: Path) -> None:
    _, search, _, notes = write_turns(tmp_path)
    with read(search) as reading:
        assert ids_at(reading, 1) == ClientIds("Codex", TURN, "call_2", THREAD, TRACE)
    with read(notes) as reading:
        assert ids_at(reading, 1) == ClientIds("Claude Code", call="toolu_01A")


def test_the_captures_of_the_same_client_and_those_of_the_same_time_are_searched(tmp_path: Path) -> None:
    files, search, tickets, notes = write_turns(tmp_path)
    listed = [files, search, tickets, notes]
    for ended_ns, searched in ((OPENED - 2 * REACH_NS, {files, search, tickets}), (OPENED, set(listed))):
        os.utime(notes, ns=(ended_ns, ended_ns))
        query = query_of(search, ClientIds("Codex", turn=TURN), listed)
        assert query is not None
        assert query.paths[0] == search
        assert set(query.paths) == searched
        assert len(query.paths) == len(searched)


def test_a_client_that_names_no_turns_is_asked_for_its_conversation_or_its_trace(tmp_path: Path) -> None:
    search = write_turns(tmp_path)[1]
    query = query_of(search, ClientIds("Goose", session="it's"), [])
    assert query is not None
    assert "where client_session = 'it''s'" in query.sql
    assert not query.figures_sql
    traced = query_of(search, ClientIds(trace=TRACE), [])
    assert traced is not None
    assert f"where trace_id = '{TRACE}'" in traced.sql
    assert not traced.figures_sql
    assert query_of(search, ClientIds("Claude Code", call="toolu_1"), []) is None
    assert query_of(search, ClientIds("Codex", turn="\x1b[2J"), []) is None


def test_figures_are_put_into_words() -> None:
    assert figures_text(["4", "3", "2", "2700.5"]) == "4 calls on 3 servers, 2 failed, 2.7 s of waiting"
    assert figures_text(["1", "1", "0", None]) == "1 call on 1 server"
