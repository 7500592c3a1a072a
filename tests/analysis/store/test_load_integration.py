"""The tables hold what the reader and the fold yield, which these tests compute a second time in plain Python."""

import gc
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation import routing
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request, Response, number_text
from analysis.rules.finding import Finding
from analysis.store import load as load_module
from analysis.store.inserts import BATCHES_PER_TRANSACTION, ROW_BYTES
from analysis.store.load import Loader, create_tables
from analysis.store.tables import TABLE_NAMES
from analysis.store.values import MAX_JSON_DEPTH
from captures.damage import Damage
from captures.errors import CaptureError, NewerFormat, NotACapture
from captures.frame import Frame
from captures.gaps import MAX_LOST_RECORDS
from captures.identity import capture_id, path_id
from captures.reader import Capture, assembled_items
from captures.record import members, seal
from captures.verdict import Direction
from tests.analysis.client_captures import (
    ENVIRONMENT_HASH,
    LATER_TURN,
    THREAD,
    TRACE,
    TRACEPARENT,
    TURN,
    write_codex,
    write_others,
)
from tests.analysis.judged import Judged
from tests.analysis.store import spare
from tests.analysis.store.capture_writer import MS, OPENED, CaptureWriter
from tests.examples import examples

CORPUS = sorted((Path(__file__).parents[2] / "corpus/captures").glob("*.mcpcap"))


def readable(path: Path) -> bool:
    try:
        Capture(path)
    except CaptureError:
        return False
    return True


READABLE = [path for path in CORPUS if readable(path)]


@contextmanager
def loaded(*paths: Path, findings: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with everything that can be loaded of some captures."""
    with spare.empty() as connection:
        with Loader(connection) as loader:
            for path in paths:
                id_ = loader.load(path)
                if findings:
                    loader.load_findings(path, id_)
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def row(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    found = connection.execute(sql)
    names = [column[0] for column in found.description or ()]
    (values,) = found.fetchall()
    return dict(zip(names, values, strict=True))


def everything(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[Any, ...]]]:
    # `path` is the only column that depends on where a capture is.
    return {name: rows(connection, f"select * from {name} order by all") for name in TABLE_NAMES}


# ---- the corpus


def frames_are_those_of_the_reader(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    frames = [item for item in assembled_items(Capture(path)) if isinstance(item, Frame)]
    wanted = [
        (
            frame.seq,
            frame.t_ns,
            frame.dir,
            frame.conn,
            frame.exchange,
            frame.unit,
            frame.event_id,
            frame.verdict.kind,
            None if frame.verdict.id is None else frame.verdict.id.decode(),
            frame.verdict.method,
            frame.verdict.code,
            frame.verdict.problem,
            len(frame.raw),
            frame.raw,
        )
        for frame in frames
    ]
    columns = "seq, t_ns, dir, conn, exchange, unit, event_id, kind, id, method, code, problem, size, raw"
    assert rows(connection, f"select {columns} from frames order by seq") == sorted(wanted, key=lambda one: one[0])


def requests_and_their_ends_are_those_of_the_fold(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    fold = Fold()
    contexts = [one for item in assembled_items(Capture(path)) for one in fold.feed(item)] + [*fold.flush()]
    asked = Counter((one.message.seq, one.message.index) for one in contexts if isinstance(one.message, Request))
    ended: list[tuple[Any, ...]] = [
        (
            one.answered.request.seq,
            one.answered.request.index,
            one.answered.outcome.value,
            one.message.seq,
            one.answered.started_ns,
            one.message.t_ns,
        )
        for one in contexts
        if isinstance(one.message, Response) and one.answered is not None
    ]
    left: list[tuple[Any, ...]] = [
        (one.request.seq, one.request.index, one.outcome.value, None, one.started_ns, None) for one in fold.open_calls()
    ]
    found = rows(connection, "select request, item, outcome, response, started_ns, ended_ns from exchanges")
    assert Counter((seq, item) for seq, item, *_ in found) == asked
    # The fold reports nothing else about requests that no response can belong to.
    rest = Counter(found) - Counter(ended + left)
    assert len(found) - rest.total() == len(ended + left)
    assert {(outcome, end) for _, _, outcome, *_, end in rest} <= {("failed", None), ("unanswered", None)}


def capture_is_accounted_for(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    items = list(assembled_items(Capture(path)))
    fold = Fold()
    for item in items:
        fold.feed(item)
    fold.flush()
    frames = [item for item in items if isinstance(item, Frame)]
    found = row(connection, "select * from captures")
    assert found["frames"] == len(frames)
    assert found["bytes"] == sum(len(frame.raw) for frame in frames)
    damage = [item for item in items if isinstance(item, Damage) and item.cause != "torn"]
    assert found["damage"] == sum(item.size for item in damage)
    assert found["sessions"] == fold.routing.count
    assert found["unjudged"] == fold.unjudged_count
    assert found["forgotten"] == sum(one.times for one in fold.forgotten_entries) == 0
    assert found["ending"] == fold.ending
    assert found["is_live"] is False
    sessions = rows(connection, "select session, frames, requests from sessions order by session")
    assert sum(count for _, count, _ in sessions) >= len(frames) - Counter(f.verdict.kind for f in frames)["invalid"]
    assert sum(count for *_, count in sessions) == rows(connection, "select count(*) from exchanges")[0][0]


@pytest.mark.parametrize(("name", "lost"), [("good", 0), ("killed", 0), ("gap", 3), ("damaged", 4), ("ring.3", 0)])
def test_lost_records_are_counted(name: str, lost: int) -> None:
    with loaded(next(path for path in CORPUS if path.stem == name)) as connection:
        assert rows(connection, "select lost from captures") == [(lost,)]


@pytest.mark.parametrize("name", ["killed", "torn"])
def test_what_a_kill_leaves_is_no_damage(name: str) -> None:
    with loaded(next(path for path in CORPUS if path.stem == name)) as connection:
        assert rows(connection, "select damage, lost from captures") == [(0, 0)]


def findings_are_those_of_the_checker(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    checker = Judged()
    wanted: list[Finding] = [one for item in assembled_items(Capture(path)) for one in checker.feed(item)]
    wanted += checker.finish("closed" if checker.fold.ending is not None else "killed")
    columns = 'rule, "group", level, blames, session, frame, item, related, message, pointer, source, t_ns'
    found = rows(connection, f"select {columns} from findings")
    assert sorted(map(str, found)) == sorted(
        str(
            (
                one.rule,
                one.rule.partition("/")[0],
                str(one.level),
                one.blames,
                one.session,
                one.frame,
                one.item,
                list(one.related),
                one.message.encode("utf-8", "replace").decode(),
                one.pointer.encode("utf-8", "replace").decode(),
                one.source,
                one.t_ns,
            )
        )
        for one in wanted
    )


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_tables_hold_what_the_reader_the_fold_and_the_checker_say(path: Path) -> None:
    with loaded(path, findings=True) as connection:
        frames_are_those_of_the_reader(path, connection)
        requests_and_their_ends_are_those_of_the_fold(path, connection)
        capture_is_accounted_for(path, connection)
        findings_are_those_of_the_checker(path, connection)


def test_loading_again_gives_the_same_rows() -> None:
    again = loaded(*_one_of_each(), findings=True)
    with loaded(*_one_of_each(), findings=True) as first, again as second:
        assert everything(first) == everything(second)


def test_many_captures_in_one_load_are_the_same_as_each_alone() -> None:
    with loaded(*_one_of_each(), findings=True) as together:
        found = everything(together)
    apart: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLE_NAMES}
    for path in _one_of_each():
        with loaded(path, findings=True) as alone:
            for name, those in everything(alone).items():
                apart[name] += those
    assert {name: sorted(map(str, those)) for name, those in found.items()} == {
        name: sorted(map(str, those)) for name, those in apart.items()
    }


def _one_of_each() -> list[Path]:
    """One readable capture for each id."""
    return list({capture_id(Capture(path)): path for path in READABLE}.values())


@pytest.mark.parametrize(("name", "error"), [("empty", NotACapture), ("newer-format", NewerFormat)])
def test_what_is_no_capture_is_refused_and_leaves_no_rows(name: str, error: type[CaptureError]) -> None:
    with duckdb.connect() as connection:
        create_tables(connection)
        with Loader(connection) as loader, pytest.raises(error):
            loader.load(next(path for path in CORPUS if path.stem == name))
        assert not any(everything(connection).values())


def test_capture_without_a_header_has_the_hash_of_its_path(tmp_path: Path) -> None:
    path = next(path for path in CORPUS if path.stem == "header-lost")
    with loaded(path) as connection:
        assert rows(connection, "select distinct capture from frames") == [(path_id(path),)]


# ---- handwritten conversations


def test_times_come_as_wall_clock(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.ask(1.5, 1, "ping")
    with loaded(talk.close()) as connection:
        ((time, opened),) = rows(
            connection, "select epoch_ns(frames.time), epoch_ns(opened) from frames join captures using (capture)"
        )
        assert (time, opened) == (OPENED + 1_500_000, OPENED)


def test_a_time_that_is_not_exact_is_no_latency(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.ask(0, 1, "ping")
    talk.raw(5, "s2c", b'{"jsonrpc":"2.0","id":1,"result":{}}', time_is_exact=False)
    talk.ask(10, 2, "ping")
    talk.answer(12, 2)
    with loaded(talk.close()) as connection:
        assert rows(connection, "select time_is_exact from frames order by seq") == [
            (True,),
            (False,),
            (True,),
            (True,),
        ]
        assert rows(connection, "select time_is_exact, latency_ms, server_ms from exchanges order by request") == [
            (False, None, None),
            (True, 2, 2),
        ]


def test_stall_is_told_of_its_frames_and_is_no_latency(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    one = talk.ask(0, 1, "ping")
    between = talk.say(1, "s2c", method="notifications/message")
    two = talk.ask(2, 2, "ping")
    talk.record(5, "stall", dir="c2s", of=one, to=two, waited_ns=3 * MS)
    talk.answer(10, 1)
    talk.answer(11, 2)
    three = talk.ask(12, 3, "ping")
    with loaded(talk.close()) as connection:
        waited = dict(rows(connection, "select seq, stall_ns from frames"))
        assert (waited[one], waited[two], waited[between], waited[three]) == (3 * MS, 3 * MS, None, None)
        assert rows(connection, "select stall_ms, latency_ms from exchanges order by request") == [
            (3, 7),
            (3, 6),
            (0, None),
        ]


def test_time_in_which_the_server_waited_for_the_client_is_not_its_own(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.call(0, 1, "ask")
    talk.say(10, "s2c", id=1, method="sampling/createMessage", params={})
    talk.say(20, "s2c", id=2, method="elicitation/create", params={})
    talk.say(30, "c2s", id=1, result={})
    talk.say(40, "c2s", id=2, result={})
    talk.say(50, "s2c", id=3, method="ping")
    talk.say(60, "c2s", id=3, result={})
    talk.answer(100, 1)
    with loaded(talk.close()) as connection:
        found = rows(connection, "select latency_ms, waiting_ms, server_ms from exchanges where asked_by = 'client'")
        assert found == [(100, 30, 70)]


def test_of_two_calls_at_once_none_is_said_to_have_waited(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.call(0, 1, "ask")
    talk.call(5, 2, "ask")
    talk.say(10, "s2c", id=1, method="sampling/createMessage", params={})
    talk.say(30, "c2s", id=1, result={})
    talk.answer(50, 1)
    talk.answer(60, 2)
    with loaded(talk.close()) as connection:
        assert rows(connection, "select distinct waiting_ms from exchanges where asked_by = 'client'") == [(0,)]


def test_calls_to_tools_that_are_only_for_apps_are_marked(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    apps = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
    talk.say(0, "c2s", id=0, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": apps})
    talk.say(1, "s2c", id=0, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
    talk.say(2, "c2s", id=1, method="tools/list")
    tools = [{"name": "chart"}, {"name": "poll", "_meta": {"ui": {"visibility": ["app"]}}}]
    talk.say(3, "s2c", id=1, result={"tools": tools})
    talk.call(4, 2, "chart")
    talk.call(5, 3, "poll")
    with loaded(talk.close()) as connection:
        found = rows(connection, "select name, is_app_call from exchanges where name is not null order by request")
        assert found == [("chart", False), ("poll", True)]


def over_http(path: Path) -> CaptureWriter:
    return CaptureWriter(path, "a", transport="http")


def exchange(talk: CaptureWriter, at_ms: float, number: int, stage: str, status: int | None = 200, **more: Any) -> None:
    head = {"method": "POST", "target": "/mcp", "headers": [["Mcp-Session-Id", "s"]]}
    answer = None if status is None else {"status": status, "headers": [["Content-Type", "text/event-stream"]]}
    talk.record(at_ms, "exchange", conn=1, exchange=number, stage=stage, request=head, response=answer, **more)


def carried(talk: CaptureWriter, at_ms: float, direction: Direction, number: int, **message: Any) -> int:
    raw = json.dumps({"jsonrpc": "2.0", **message})
    unit = "http_body" if direction == "c2s" else "sse_event"
    return talk.record(
        at_ms, "frame", dir=direction, conn=1, exchange=number, unit=unit, kind="invalid", size=len(raw), raw=raw
    )


def test_what_only_the_end_of_an_exchange_tells_is_null_before(tmp_path: Path) -> None:
    talk = over_http(tmp_path / "a.mcpcap")
    for number in (1, 2, 3):
        exchange(talk, number, number, "request", None)
        carried(talk, number, "c2s", number, id=number, method="ping")
    for number in (2, 3):
        exchange(talk, number + 5, number, "response", request_size=40)
        carried(talk, number + 5, "s2c", number, id=number, result={})
    talk.record(9, "stream", conn=1, exchange=3, event="ended", events=1)
    exchange(talk, 9, 3, "end", request_size=40, response_size=70, ended_by="complete")
    with loaded(talk.close()) as connection:
        columns = "exchange, request_bytes, response_bytes, events"
        assert rows(connection, f"select {columns} from http_exchanges order by 1") == [
            (1, None, None, None),
            (2, 40, None, None),
            (3, 40, 70, 1),
        ]


def test_no_number_of_an_exchange_makes_a_load_fail(tmp_path: Path) -> None:
    talk = over_http(tmp_path / "a.mcpcap")
    sizes = dict.fromkeys(("request_size", "response_size"), 2**63)
    talk.record(1, "exchange", conn=2**63, exchange=1, stage="request", request={"method": "POST", "target": "/"})
    answer = {"status": 2**63, "headers": []}
    talk.record(2, "exchange", conn=2**63, exchange=1, stage="end", response=answer, ended_by="complete", **sizes)
    talk.record(3, "stream", conn=2**63, exchange=1, event="ended", events=2**63)
    with loaded(talk.close()) as connection:
        columns = "exchange, conn, status, request_bytes, response_bytes, events"
        assert rows(connection, f"select {columns} from http_exchanges") == [(1, 0, None, None, None, 0)]


def test_over_http_the_exchange_tells_who_waited(tmp_path: Path) -> None:
    talk = over_http(tmp_path / "a.mcpcap")
    for number in (1, 2):
        exchange(talk, number, number, "request", None)
        carried(talk, number, "c2s", number, id=number, method="tools/call", params={"name": "ask"})
    carried(talk, 10, "s2c", 1, id=1, method="sampling/createMessage", params={})
    exchange(talk, 20, 3, "request", None)
    carried(talk, 30, "c2s", 3, id=1, result={})
    exchange(talk, 31, 3, "end", 202, ended_by="complete")
    carried(talk, 51, "s2c", 1, id=1, result={})
    exchange(talk, 52, 1, "end", ended_by="complete", times={"request_head": 900_000, "response_end": 52 * MS})
    exchange(talk, 60, 2, "end", 502, ended_by="server")
    with loaded(talk.close()) as connection:
        columns = "exchange, outcome, latency_ms, waiting_ms, server_ms"
        assert rows(connection, f"select {columns} from exchanges where asked_by = 'client' order by request") == [
            (1, "result", 50, 20, 30),
            (2, "failed", None, None, None),
        ]
        http = rows(
            connection, "select exchange, status, started_ns, ended_ns, is_stream from http_exchanges order by 1"
        )
        assert http == [
            (1, 200, 900_000, 52 * MS, True),
            (2, 502, 2 * MS, 60 * MS, True),
            (3, 202, 20 * MS, 31 * MS, True),
        ]


def test_progress_and_cancellation_are_counted(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    for number in (1, 2):
        talk.ask(number, number, "tools/call", name="dig", _meta={"progressToken": number})
    for at in (3, 4, 5):
        talk.say(at, "s2c", method="notifications/progress", params={"progressToken": 1, "progress": at})
    talk.say(6, "c2s", method="notifications/cancelled", params={"requestId": 2})
    talk.ask(7, 3, "ping")
    talk.answer(8, 1)
    talk.ask(9, 1, "ping")
    with loaded(talk.close()) as connection:
        columns = "id, name, outcome, progress, first_progress_ms, cancelled_ns, in_flight"
        assert rows(connection, f"select {columns} from exchanges order by request") == [
            ("1", "dig", "result", 3, 2, None, 1),
            ("2", "dig", "cancelled", 0, None, 6 * MS, 2),
            ("3", None, "unanswered", 0, None, None, 2),
            ("1", None, "unanswered", 0, None, None, 2),
        ]


def test_names_are_those_of_tool_prompt_resource_and_reference(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.call(0, 1, "x" * 300)
    talk.ask(0, 2, "resources/read", uri="note://1")
    talk.ask(0, 3, "completion/complete", ref={"type": "ref/prompt", "name": "sum"}, argument={})
    talk.ask(0, 4, "ping", name=5)
    talk.answer(1, 2)
    with loaded(talk.close()) as connection:
        assert rows(connection, "select name from frames order by seq") == [
            ("x" * 256,),
            ("note://1",),
            ("sum",),
            (None,),
            ("note://1",),
        ]


def test_an_empty_name_is_none(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "s")
    talk.call(10, 1, "")
    talk.answer(11, 1, content=[])
    talk.ask(20, 2, "tools/call", arguments={})
    talk.answer(21, 2, content=[])
    with loaded(talk.close()) as connection:
        assert rows(connection, "select distinct name from exchanges union all from frames select distinct name") == [
            (None,),
            (None,),
        ]


SPELT = [
    "7",
    '"7"',
    '"' + "x" * 254 + '"',
    '"' + "x" * 255 + '"',
    '"' + "é" * 200 + '"',
    '"' + "\\u00e9" * 60 + '"',
    "7" * 300,
]
SPELT += ["[1]", "{}", "true", "null", "1.50"]


def test_ids_are_the_same_in_frames_and_exchanges(tmp_path: Path) -> None:
    talks = []
    for number, id_ in enumerate(SPELT):
        talk = CaptureWriter(tmp_path / f"{number}.mcpcap", "s", number)
        talk.raw(1, "c2s", b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id_.encode())
        talk.raw(2, "c2s", b'[{"jsonrpc":"2.0","id":%b,"method":"ping"}]' % id_.encode())
        talks.append(talk)
    with loaded(*(talk.close() for talk in talks)) as connection:
        for talk, id_ in zip(talks, SPELT, strict=True):
            of = f"capture = '{talk.capture}'"
            (alone, in_batch) = rows(connection, f"select item, id from exchanges where {of} order by request")
            (frame,) = rows(connection, f"select id from frames where kind <> 'batch' and {of}")
            is_scalar_and_short = len(id_.encode()) <= 256 and id_[0] not in "[{"
            assert alone == (None, id_ if is_scalar_and_short else None), id_
            assert alone[1:] == frame, id_
            # In a batch, numbers and escapes are normalised.
            assert in_batch[0] == 0, id_
            assert in_batch[1] == {"1.50": "1.5"}.get(id_, id_ if is_scalar_and_short else in_batch[1]), id_
            assert "(" not in str(in_batch[1] or ""), id_


def test_errors_tell_code_and_text(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    for number in (1, 2, 3):
        talk.call(number, number, "dig")
    talk.refuse(4, 1, -32602, "e" * 400)
    talk.fail(5, 2, "no spade")
    talk.answer(6, 3, content=[{"type": "image"}], isError=True)
    with loaded(talk.close()) as connection:
        assert rows(connection, "select code, error from exchanges order by request") == [
            (-32602, "e" * 300),
            (None, "no spade"),
            (None, None),
        ]


def test_the_ids_of_each_client_are_columns(tmp_path: Path) -> None:
    with loaded(*write_codex(tmp_path), *write_others(tmp_path)) as connection:
        calls = rows(
            connection,
            "select server, known_client, turn_id, client_call_id, client_session, trace_id "
            "from exchanges join captures using (capture) where method = 'tools/call' order by server, request",
        )
        assert rows(connection, "select turn_id from exchanges where method = 'initialize' group by all") == [(None,)]
    assert calls == [
        ("files", "Codex", TURN, "call_1", THREAD, None),
        ("files", "Codex", TURN, "call_3", THREAD, None),
        ("issues", "VS Code", "request_3f2a", None, "conversation_beef", TRACE),
        ("mail", "OpenCode", None, None, "ses_demo", None),
        ("maps", "Claude Code", None, "toolu_demo7", ENVIRONMENT_HASH, None),
        ("memory", "Goose", None, "call_goose", "20261130_1", None),
        ("music", None, None, None, None, None),
        ("notes", "Qwen Code", "prompt########3", None, "qwen-session", None),
        ("search", "Codex", TURN, "call_2", THREAD, None),
        ("search", "Codex", LATER_TURN, "call_5", THREAD, None),
        ("tickets", "Codex", TURN, "call_4", THREAD, None),
    ]


def test_the_trace_in_meta_comes_before_that_in_the_head(tmp_path: Path) -> None:
    talk = over_http(tmp_path / "a.mcpcap")
    head = {"method": "POST", "target": "/", "headers": [["traceparent", TRACEPARENT.replace("4bf9", "0000")]]}
    for number, meta in enumerate(({"traceparent": TRACEPARENT}, {"traceparent": 7}, {}), 1):
        talk.record(number, "exchange", conn=number, exchange=number, stage="request", request=head)
        carried(talk, number, "c2s", number, id=number, method="tools/list", params={"_meta": meta})
    with loaded(talk.close()) as connection:
        traces = [TRACE, TRACE.replace("4bf9", "0000"), TRACE.replace("4bf9", "0000")]
        assert rows(connection, "select trace_id from exchanges order by request") == [(trace,) for trace in traces]


def test_a_definition_is_told_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    dig, spelt = {"name": "dig", "inputSchema": {"a": 1, "b": 2}}, {"inputSchema": {"b": 2, "a": 1}, "name": "dig"}
    changed = {**dig, "annotations": {"title": "Dig é"}}
    lists = ([dig, {"name": 5}, "x"], [spelt], [changed], [dig])
    for number, tools in enumerate(lists):
        talk.ask(number, number, "tools/list")
        talk.answer(number, number, tools=tools)
    with loaded(talk.close()) as connection:
        found = rows(connection, "select title, definition, bytes, tokens_estimate, listed from tools order by listed")
    half = 2  # half of the divisor, so that halves are rounded up
    compact = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in (dig, changed)]
    assert found == [
        (None, compact[0], len(compact[0].encode()), (len(compact[0].encode()) + half) // 4, 2),
        ("Dig é", compact[1], len(compact[1].encode()), (len(compact[1].encode()) + half) // 4, 6),
    ]


def test_batches_and_messages_over_lines_have_their_rows(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    both = [{"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "dig"}} for number in (1, 2)]
    batch = talk.raw(0, "c2s", json.dumps(both).encode())
    pretty = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}, indent=1).encode().split(b"\n")
    lines = [talk.raw(number, "s2c", line) for number, line in enumerate(pretty, 1)]
    with loaded(talk.close()) as connection:
        assert rows(connection, "select request, item, outcome, response_bytes from exchanges order by item") == [
            (batch, 0, "result", sum(map(len, pretty))),
            (batch, 1, "unanswered", None),
        ]
        found = dict(rows(connection, "select seq, request from frames"))
        assert found == {batch: None, **dict.fromkeys(lines, batch)}
        assert sum(rows(connection, "select list(request_bytes) from exchanges")[0][0]) < len(json.dumps(both))


NOT_JSON = (
    b"not json",
    b"",
    b"   ",
    b"\xff\xfe",
    b"NaN",
    b'"\\ud800"',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":NaN}}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","params":{"x":-Infinity}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\xed\xa0\x80"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1e400,"y":"\\ud800"}}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"method":"a",}',
    b'{"jsonrpc":"2.0","id":nan,"method":"a"}',
    b'{"jsonrpc":"2.0","id":01,"method":"a"}',
    b'{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"a"}',
    b'{"jsonrpc":"2.0","method":"a"}\x00',
    b'{"jsonrpc":"2.0","method":"a"} x',
)
"""Frames that are not JSON, but that some parsers accept, including DuckDB's."""


def test_message_is_json_only_where_no_query_can_fail_on_it(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    deep = b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH
    good = [
        b'{"jsonrpc":"2.0","id":1,"method":"a"}',
        b' {"jsonrpc": "2.0", "id": 12345678901234567890123, "method": "a", "params": {"x": 1e400}} ',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1,"y":2,"\\u0000":"\\ud83d\\ude00"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x\\u003ay":"\\u003a","x":"x:y"}}',
        b'{"no":"message"}',
        b"[]",
        b"12",
        deep,
        b'{"jsonrpc":"2.0","id":1,"method":"' + b"[" * 300 + b'"}',
    ]
    too_deep = [
        b"[" + deep + b"]",
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b'{"a":' * 150 + b"1" + b"}" * 151,
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b'{"a":' * 150 + b'1,"a":2' + b"}" * 151,
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b"[" * 300 + b"]" * 300 + b"}",
    ]
    unjudged = [b"[" * 600 + b"]" * 600]
    wanted: list[tuple[Any, ...]] = [(raw, raw.decode(), None, True) for raw in good]
    wanted += [(raw, None, "not JSON", False) for raw in NOT_JSON]
    wanted += [(raw, None, "too deep", False) for raw in too_deep]
    wanted += [(raw, None, "unjudged", False) for raw in unjudged]
    for raw, *_ in wanted:
        talk.raw(0, "c2s", raw)
    with loaded(talk.close()) as connection:
        assert rows(connection, "select raw, message, message_problem, is_json from frames order by seq") == wanted
        for use in (
            "json_structure(message)",
            "message ->> '$.params.x'",
            "json_keys(message)",
            "json_extract(message, '$..x')",
            'json_transform(message, \'{"id": "VARCHAR"}\')',
            "json_pretty(message)",
            "json_group_structure(message)",
        ):
            connection.execute(f"select {use} from frames").fetchall()


TWICE = (
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":1}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "name": "b"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1,"progressToken":2}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[{"\xc3\xa9":1,"\\u00e9":2}]}}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","type":"array"}}]}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a:b":1,"c":{"x\\u003ay":1,"x:y":"\\u003a"}}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"a","message":"b"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"a","data":{"":1e400,"":2}}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"id":3,"method":"a"}]',
    b'{"no":"message","no":"sense"}',
)
"""Frames with a duplicate member, of which a parser may read the first or the last."""


def test_no_row_says_two_things_of_a_member_that_comes_twice(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    for raw in TWICE:
        talk.raw(0, "c2s", raw)
    with loaded(talk.close()) as connection:
        found = rows(connection, "select raw, message, message_problem, is_json from frames order by seq")
        assert found == [(raw, None, "duplicate member", True) for raw in TWICE]
        # The columns hold the last member, and nothing contradicts them.
        assert rows(connection, "select id, message ->> '$.id' from frames where seq = 1") == [("2", None)]
        assert rows(connection, "select name from frames where seq = 4") == [("b",)]


def test_bodies_events_and_unfinished_lines_have_no_message_if_they_are_not_json(tmp_path: Path) -> None:
    """Problems of lines are reported only for lines."""
    path = tmp_path / "a.mcpcap"
    lines = [seal(0, 0, "header", members(format=1, capture="0" * 32, transport="http"))]
    wanted: list[tuple[Any, ...]] = []
    places: tuple[dict[str, Any], ...] = (
        {"unit": "line", "whole": False},
        {"unit": "http_body", "exchange": 1},
        {"unit": "http_body", "exchange": 1, "whole": False},
        {"unit": "sse_event", "exchange": 1},
    )
    plain = b'{"jsonrpc":"2.0","id":1,"method":"a"}'
    told = [(plain, None), *((raw, "not JSON") for raw in NOT_JSON), *((raw, "duplicate member") for raw in TWICE)]
    for place in places:
        for raw, why in told:
            number = len(lines)
            given = {"raw": raw.decode()} if raw.isascii() else {"raw_b64": b64encode(raw).decode()}
            lines.append(seal(number, number, "frame", members(dir="c2s", **place, **given)))
            wanted.append((raw, raw.decode() if why is None else None, why))
    lines.append(
        seal(len(lines), len(lines), "frame", members(dir="s2c", unit="sse_event", exchange=1, event="x", raw="{}"))
    )
    path.write_bytes(b"".join(lines))
    with loaded(path) as connection:
        found = rows(connection, "select raw, message, message_problem from frames order by seq")
        assert found == [*wanted, (b"{}", None, "unjudged")]


def test_the_id_in_a_row_is_the_id_in_its_message(tmp_path: Path) -> None:
    """For any spelling: the column has the original text, while DuckDB normalises numbers and escapes."""
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    whole = ("1", "-0", "1.0", "1e2", "9007199254740993", "18446744073709551616", str(2**70), "-9223372036854775809")
    floats = ("0.1000000000000000055511151231257827", "1.5", "1e300", "1e-400")
    texts = ('"a"', '"\\u0061"', '"\\/"', '"é"', '"\\u00e9"', '"a\\u0000b"', '"1"', '""')
    for id_ in (*whole, *floats, *texts, "true", "null"):
        talk.raw(0, "c2s", f'{{"jsonrpc":"2.0","id":{id_},"method":"a"}}'.encode())
    with loaded(talk.close()) as connection:
        found = rows(connection, "select id, message -> '$.id', message_problem from frames order by seq")
    assert [(id_, why) for id_, _, why in found] == [(id_, None) for id_ in (*whole, *floats, *texts, "true", "null")]
    for id_, in_message, _ in found:  # none overflows a float, as the column has no such ids
        if id_ in whole:
            assert number_text(id_) == number_text(in_message)
        else:
            assert json.loads(id_) == json.loads(in_message)


def test_json_columns_made_of_a_message_with_a_member_twice_agree_with_their_row(tmp_path: Path) -> None:
    """Definitions and capabilities are re-encoded with the last of two members, like all other columns of the row."""
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.raw(
        0,
        "c2s",
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{"roots":{}},"capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}',
    )
    talk.answer(1, 0, protocolVersion="2025-06-18", capabilities={}, serverInfo={"name": "s", "version": "1"})
    talk.ask(2, 1, "tools/list")
    listed = talk.raw(3, "s2c", b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","name":"b","title":"x"}]}}')
    with loaded(talk.close()) as connection:
        assert rows(connection, "select client_capabilities from sessions") == [('{"sampling":{}}',)]
        found = rows(connection, "select name, definition, definition ->> '$.name', bytes, listed from tools")
        assert found == [("b", '{"name":"b","title":"x"}', "b", len('{"name":"b","title":"x"}'), listed)]
        assert rows(connection, f"select message_problem from frames where seq = {listed}") == [("duplicate member",)]


def test_numbers_that_no_column_holds_do_no_harm(tmp_path: Path) -> None:
    huge = 2**64 - 1
    lines = [
        seal(
            0,
            0,
            "header",
            members(format=1, capture="x" * 32, wall_ns=huge, parents=[{"pid": huge, "exe": 5}], argv=[1]),
        ),
        seal(1, huge, "frame", members(dir="c2s", size=2, raw="{}")),
        seal(2, 5, "frame", members(dir="c2s", conn=huge, exchange=huge, unit="http_body", size=2, raw="{}")),
        seal(
            3,
            5,
            "exchange",
            members(exchange=huge, conn=huge, stage="end", request_size=huge, times={"request_head": huge}),
        ),
        seal(4, 5, "exchange", members(exchange=7, stage="end", response={"status": huge})),
        seal(5, 5, "stall", members(dir="c2s", of=huge, waited_ns=huge)),
        seal(6, 5, "stall", members(dir="c2s", of=0, to=2**62, waited_ns=4)),
        seal(7, 5, "process", members(event="ended", status=huge, signal=["x"])),
        seal(8, 5, "stream", members(exchange=7, events=huge)),
        seal(huge, 6, "frame", members(dir="c2s", size=2, raw="{}")),
        seal(huge, 7, "close", members(ending=huge, status=huge)),
    ]
    path = tmp_path / "a.mcpcap"
    path.write_bytes(b"".join(lines))
    with loaded(path, findings=True) as connection:
        assert rows(connection, "select seq, conn, exchange, stall_ns, time from frames") == [(2, 0, None, 4, None)]
        found = row(connection, "select * from captures")
        assert (found["capture"], found["lost"], found["exit_status"]) == (path_id(path), 4, None)


def test_the_numbers_that_a_column_holds_end_between_two_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpcap"
    header = seal(0, 0, "header", members(format=1))
    frames = [seal(2**63 + at, 5, "frame", members(dir="c2s", size=2, raw="{}")) for at in (-2, -1, 0, 1)]
    path.write_bytes(b"".join([header, *frames]))
    with loaded(path) as connection:
        assert rows(connection, "select seq - 9223372036854775800 from frames") == [(6,), (7,)]
        assert rows(connection, "select frames, lost from captures") == [(2, MAX_LOST_RECORDS)]


def test_rows_and_counts_are_the_same_however_often_they_are_inserted(monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded(*READABLE[::3]) as connection:
        at_once = everything(connection)
    monkeypatch.setattr(load_module, "MAX_WAITING_BYTES", 1000)
    with loaded(*READABLE[::3]) as connection:
        assert everything(connection) == at_once


def test_a_session_that_was_forgotten_and_speaks_again_has_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "MAX_HELD_SESSIONS", 100)
    monkeypatch.setattr(routing, "MAX_SESSIONS", 100)
    talk = over_http(tmp_path / "a.mcpcap")
    count = 150

    def ask(number: int, key: int) -> None:
        head = {"method": "POST", "target": "/", "headers": [["Mcp-Session-Id", f"{key}"]]}
        talk.record(number, "exchange", exchange=number, stage="request", request=head)
        carried(talk, number, "c2s", number, id=number, method="ping")

    for number in range(1, count):
        ask(number, number)
    carried(talk, count, "s2c", 1, id=1, result={})
    with loaded(talk.close()) as connection:
        found = rows(connection, "select count(*), count(distinct session), sum(frames), sum(requests) from sessions")
        assert found == [(count - 1, count - 1, count, count - 1)]
        assert rows(connection, "select frames, requests, last_ns from sessions where session = 1") == [
            (2, 1, count * MS)
        ]


def test_a_capture_of_which_a_part_cannot_be_read_leaves_no_rows(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.ask(0, 1, "ping")
    (tmp_path / "a.2.mcpcap").mkdir()
    path, other = talk.close(), CaptureWriter(tmp_path / "b.mcpcap", "b", number=1)
    other.ask(0, 1, "ping")
    with duckdb.connect() as connection:
        create_tables(connection)
        with Loader(connection) as loader:
            with pytest.raises(NotACapture):
                loader.load(path)
            loader.load(other.close())
        assert rows(connection, "select distinct capture from frames") == [(other.capture,)]


def test_progress_of_a_load_ends_at_the_size_of_the_capture() -> None:
    told: list[int] = []
    path = next(path for path in CORPUS if path.stem == "two-segments")
    with duckdb.connect() as connection:
        create_tables(connection)
        with Loader(connection) as loader:
            loader.load(path, progress=told.append)
    assert told[-1] == Capture(path).size


def test_rows_are_let_go_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is committed, as a transaction keeps deleted rows in memory."""
    monkeypatch.setattr(load_module, "MAX_WAITING_BYTES", 9 * ROW_BYTES)
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    for id_ in range(500):
        talk.ask(id_, id_, "ping")
    path = talk.close()
    with duckdb.connect() as connection, connection.cursor() as other:
        create_tables(connection)
        with Loader(connection) as loader:
            loader.load(path)
            ((committed,),) = rows(other, "select count(*) from frames")
            assert 500 - 10 * (BATCHES_PER_TRANSACTION + 1) < committed < 500
        assert rows(other, "select count(*) from frames") == [(500,)]


def test_what_a_load_knew_goes_with_it(tmp_path: Path) -> None:
    """Freed without garbage collection, which costs a tenth of a load."""
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    for id_ in range(2000):
        talk.ask(id_, id_, "ping")
    path = talk.close()
    with duckdb.connect() as connection:
        create_tables(connection)
        gc.collect()
        gc.disable()
        try:
            with Loader(connection) as loader:
                loader.load(path)
            assert gc.collect() < 2000  # Arrow columns leave about 100 for each table
        finally:
            gc.enable()


def test_a_connection_is_fit_for_use_after_something_went_wrong(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a")
    talk.ask(0, 1, "ping")
    path = talk.close()

    def fail(_read: int) -> None:
        raise ZeroDivisionError

    with duckdb.connect() as connection:
        create_tables(connection)
        with pytest.raises(ZeroDivisionError), Loader(connection) as loader:
            loader.load(path, progress=fail)
        with Loader(connection) as loader:
            loader.load(path)
        assert rows(connection, "select count(*) from frames") == [(1,)]


# ---- any conversation

IDS: st.SearchStrategy[Any] = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", None, 1.0, 2**60, [], "\ud800"]))
METHODS = st.sampled_from(
    [
        "initialize",
        "tools/call",
        "tools/list",
        "ping",
        "notifications/progress",
        "notifications/cancelled",
        "sampling/createMessage",
        "é\ud800",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters(), max_size=5),
    lambda x: (
        st.lists(x, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["name", "uri", "_meta", "progressToken", "requestId", "tools", "ref", "task", "content", "text"]
            ),
            x,
            max_size=3,
        )
    ),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": IDS,
        "method": METHODS,
        "params": VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
RAW = st.one_of(
    MESSAGES.map(lambda one: json.dumps(one).encode()),
    st.lists(MESSAGES, max_size=3).map(lambda one: json.dumps(one).encode()),
    MESSAGES.map(lambda one: json.dumps(one, indent=1).encode()),
    st.binary(max_size=20),
)
RECORDS = st.one_of(
    st.tuples(st.just("frame"), st.sampled_from(["c2s", "s2c"]), RAW, st.none() | st.integers(1, 3)),
    st.tuples(
        st.sampled_from(
            ["exchange", "stall", "gap", "stream", "eof", "process", "stderr", "close", "header", "part", "x"]
        ),
        st.dictionaries(
            st.sampled_from(
                [
                    "exchange",
                    "conn",
                    "stage",
                    "request",
                    "response",
                    "times",
                    "of",
                    "to",
                    "waited_ns",
                    "dir",
                    "event",
                    "events",
                    "raw",
                    "first",
                    "last",
                    "reason",
                    "uri_key",
                    "ended_by",
                    "status",
                    "signal",
                    "ending",
                    "part",
                    "size",
                ]
            ),
            st.integers(0, 3)
            | st.sampled_from(
                [
                    "end",
                    "c2s",
                    "s2c",
                    "ended",
                    "spawned",
                    "damage",
                    "x",
                    -1,
                    2**64 - 1,
                    {"status": 502},
                    {"request_head": 5, "first_byte": "x"},
                    {"method": "POST", "headers": [["Mcp-Session-Id", "s"]]},
                    [],
                ]
            ),
        ),
    ),
)


@examples(8)
@given(st.lists(RECORDS, max_size=25), st.sampled_from(["stdio", "http", None]))
def test_anything_can_be_loaded_and_agrees_with_the_fold(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], transport: str | None
) -> None:
    path = tmp_path_factory.mktemp("anything") / "a.mcpcap"
    lines = [seal(0, 0, "header", members(format=1, capture="0" * 32, transport=transport, observed_start=True))]
    for seq, record in enumerate(script, 1):
        if record[0] == "frame":
            _, direction, data, number = record
            lined = data.split(b"\n")
            more = {} if number is None else {"exchange": number, "unit": "http_body"}
            held = {"raw": lined[0].decode("latin-1")} if number is None else {"raw": data.decode("latin-1")}
            lines.append(seal(seq, seq, "frame", members(dir=direction, **more, **held)))
        else:
            lines.append(seal(seq, seq, record[0], members(**record[1])))
    path.write_bytes(b"".join(lines))
    fold = Fold()
    frames = requests = 0
    for item in assembled_items(Capture(path)):
        frames += isinstance(item, Frame)
        requests += sum(isinstance(one.message, Request) for one in fold.feed(item))
    requests += sum(isinstance(one.message, Request) for one in fold.flush())
    with loaded(path, findings=True) as connection:
        assert rows(connection, "select count(*), count(distinct seq) from frames") == [(frames, frames)]
        assert rows(connection, "select count(*) from exchanges") == [(requests,)]
        assert rows(connection, "select count(*), count(distinct session) from sessions") == [(fold.routing.count,) * 2]
        assert rows(
            connection, "select count(*) from frames where message is not null and not json_valid(message)"
        ) == [(0,)]
        assert rows(connection, "select count(*) from frames where (message is null) = (message_problem is null)") == [
            (0,)
        ]
