"""Rows that SQL makes of a capture are those that the fold makes, or SQL leaves the capture to the fold."""

import fcntl
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.child_process import PythonChild
from analysis.conversation import addressing
from analysis.store import cache, table_rows
from analysis.store.open import sources
from analysis.store.plain import child, exchanges, parent
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.lines import Lines
from analysis.store.plain.parent import load_plain
from captures.reader import Capture, Damage
from captures.record import Record, members
from tests.analysis.store.both_ways import MEMORY, Both, InThread, Ways
from tests.analysis.store.hostile import ODD, Maker
from tests.analysis.store.hostile_http import KEY, Exchange, HttpMaker
from tests.analysis.traces import corpus

SEEDS = st.integers(0, 2**48)


# ---- equal rows are the contract


def compare_corpus(place: Path, every: int) -> Ways:
    with Ways(place) as ways:
        for number, (_, case) in enumerate(corpus()):
            if number % every == 0:
                path = place / f"{number}.mcpcap"
                path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))
                ways.compare(path)
    return ways


def compare_made(place: Path, seed: int, make: type[Maker] = Maker) -> Ways:
    """A conversation, a few frames that are nearly messages, and a line in an odd spelling."""
    with Ways(place / f"{seed}") as ways:
        for name, steps, mutants, misspelt in (("talk", 60, 0, 0), ("frames", 10, 4, 0), ("lines", 10, 0, 1)):
            maker = make(Random(seed))
            maker.talk(steps)
            maker.mutate(mutants)
            if misspelt:
                maker.misspell()
            ways.compare(maker.write(place / f"{name}.mcpcap"))
        maker = make(Random(seed))
        for _ in range(3):
            maker.talk(15)
            maker.next_segment()
        maker.talk(15)
        ways.compare(maker.write(place / "segments.mcpcap"))
    return ways


def test_corpus_loads_the_same_in_both_ways(tmp_path: Path) -> None:
    ways = compare_corpus(tmp_path, 12)
    assert ways.plain > 30


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("make", "examples", "least"), [(Maker, 60, 40), (HttpMaker, 40, 40)])
def test_made_captures_load_the_same_in_both_ways(make: type[Maker], examples: int, least: int, tmp_path: Path) -> None:
    plain = 0

    @settings(max_examples=examples, deadline=None, database=None)
    @given(SEEDS)
    def run(seed: int) -> None:
        nonlocal plain
        plain += compare_made(tmp_path, seed, make).plain

    run()
    assert plain > least


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_the_whole_corpus_and_very_many_captures_load_the_same_in_both_ways(tmp_path: Path) -> None:
    assert compare_corpus(tmp_path, 1).plain > 500
    for seed in range(int(os.environ.get("MCPPROXY_SOAK_CASES", "100_000")) // 6):
        compare_made(tmp_path, seed)
        compare_made(tmp_path, seed, HttpMaker)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "corpus").rglob("*.mcpcap")), ids=lambda p: p.stem)
def test_kept_captures_load_the_same_in_both_ways(path: Path, tmp_path: Path) -> None:
    with Ways(tmp_path) as ways:
        try:
            Capture(path)
        except Exception:  # noqa: BLE001 - no capture: nothing to compare
            return
        ways.compare(path)


# ---- which captures, and what becomes of the others


def maker(steps: int = 0, *, seed: int = 7, oddity: float = 0.0) -> Maker:
    made = Maker(Random(seed))
    made.talk(steps, oddity=oddity, trouble=0.0)
    return made


def doubt_about(path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    return Both(path, place).doubt


def test_one_odd_frame_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(100)
    for raw in ODD:
        made.raw("c2s", raw)
        made.talk(2, oddity=0.0, trouble=0.0)
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "odd.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}
    with duckdb.connect(str(both.plain)) as connection:
        (problems,) = connection.execute("select count(problem) from frames").fetchone() or (0,)
    assert problems > 5


@pytest.mark.parametrize(
    ("rec", "given", "why"),
    [
        ("gap", {"first": 1, "last": 2}, "a record of type gap"),
        ("exchange", {"exchange": 1}, "another record"),
        ("header", {"format": 1}, "a record of type header"),
    ],
)
def test_what_a_pipe_or_a_whole_capture_does_not_have_is_left_to_the_fold(
    rec: str, given: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(5)
    made.add(rec, members(**given))
    assert doubt_about(made.write(tmp_path / "other.mcpcap"), tmp_path / "rows", monkeypatch) == why


def test_stall_of_a_request_that_nothing_can_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(5)
    made.say("c2s", id=None, method="no/id")
    made.ns += 10**9
    made.add("stall", members(dir="c2s", of=made.seq - 1, waited_ns=5_000_000))
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "stalled.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def test_segments_are_loaded_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(100)
    for raw in ODD:
        made.raw("c2s", raw)
        made.talk(2, oddity=0.0, trouble=0.0)
        made.next_segment()
    made.talk(100, oddity=0.0, trouble=0.0)
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "many.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


# ---- while it grows


@contextmanager
def being_recorded(path: Path) -> Iterator[None]:
    """Hold the lock of a recorder."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [Maker, HttpMaker])
def test_growing_captures_are_loaded_up_to_their_last_whole_record(
    kind: type[Maker], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    made = kind(Random(seed))
    made.talk(40, trouble=0.0)
    if seed % 3 == 0:
        made.next_segment()
        made.talk(10, trouble=0.0)
    made.lines.append(made.lines[-1][: seed * 7 % len(made.lines[-1])])
    path = made.write(tmp_path / "growing.mcpcap")
    last = path.with_suffix(".2.mcpcap") if seed % 3 == 0 else path
    with being_recorded(last):
        both = Both(path, tmp_path / "rows")
    if both.doubt is None:
        assert both.differences(is_growing=True) == {}
        assert told(both, "select is_live from captures") == [(True,)]


@pytest.mark.parametrize("name", ["opening_of", "_loaded"])
def test_segment_that_the_ring_deletes_meanwhile_is_a_doubt(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(20)
    made.next_segment()
    made.talk(20, oddity=0.0, trouble=0.0)
    path, before = made.write(tmp_path / "growing.mcpcap"), getattr(parent, name)

    def then_delete(*given: Any) -> Any:
        answer = before(*given)
        path.unlink()
        return answer

    monkeypatch.setattr(parent, name, then_delete)
    with being_recorded(path.with_suffix(".2.mcpcap")):
        assert doubt_about(path, tmp_path / "rows", monkeypatch) == "a segment that is gone"


def test_what_comes_while_a_capture_is_loaded_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    made = maker()
    for id_ in range(5000):
        made.say("c2s", id=id_, method="tools/call", params={"name": "t"})
        made.say("s2c", id=id_, result={"content": []})
    path, lines = tmp_path / "growing.mcpcap", made.lines
    seqs = [seq for seq, line in enumerate(lines) if b'"rec":"frame"' in line]
    path.write_bytes(b"".join(lines[:500]))
    counts = list[int]()
    with being_recorded(path), path.open("ab", buffering=0) as file:

        def go_on() -> None:
            for line in lines[500:]:
                file.write(line)

        writing = Thread(target=go_on)
        writing.start()
        while not counts or counts[-1] < len(seqs):
            (tmp_path / "rows").mkdir()
            both = Both(path, tmp_path / "rows")
            assert both.doubt is None
            found = [seq for (seq,) in told(both, "select seq from frames order by seq")]
            assert found == seqs[: len(found)]
            counts.append(len(found))
            shutil.rmtree(tmp_path / "rows")
        writing.join()
    assert counts == sorted(counts)


def no_header(made: Maker) -> None:
    made.begin_segment()


def foreign_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.header(capture="1" * 32)


def later_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.header(version=2)


def no_close(made: Maker) -> None:
    made.begin_segment()
    made.header()


def other_close(made: Maker) -> None:
    made.add("close", members(ending="server"))
    made.begin_segment()
    made.header()


def late_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.talk(1)
    made.header()


def torn_end(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.lines[-1] = made.lines[-1][:-1]
    made.begin_segment()
    made.header()


def empty_between(made: Maker) -> None:
    made.next_segment()
    made.begin_segment()
    made.header()


def header_only_in_the_middle(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.header()


@pytest.mark.parametrize(
    "spoil",
    [
        no_header,
        foreign_header,
        later_header,
        no_close,
        other_close,
        late_header,
        torn_end,
        empty_between,
        header_only_in_the_middle,
    ],
)
def test_segments_of_another_kind_are_left_to_the_fold(
    spoil: Callable[[Maker], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(5)
    spoil(made)
    made.talk(5, oddity=0.0, trouble=0.0)
    assert doubt_about(made.write(tmp_path / "spoilt.mcpcap"), tmp_path / "rows", monkeypatch) is not None


def test_lost_segment_is_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(5)
    for _ in range(2):
        made.next_segment()
        made.talk(5, oddity=0.0, trouble=0.0)
    path = made.write(tmp_path / "lost.mcpcap")
    (tmp_path / "lost.2.mcpcap").unlink()
    assert doubt_about(path, tmp_path / "rows", monkeypatch) is not None
    path.unlink()
    assert doubt_about(tmp_path / "lost.3.mcpcap", tmp_path / "later", monkeypatch) is not None


def test_any_flipped_bit_is_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = maker(5).write(tmp_path / "flipped.mcpcap")
    data = bytearray(path.read_bytes())
    rng = Random(3)
    begins = data.index(b'{"seq":4')
    for number in range(20):
        at, bit = rng.randrange(begins, len(data) - 1), 1 << rng.randrange(8)
        data[at] ^= bit
        path.write_bytes(data)
        items = list(Capture(path))
        assert any(isinstance(item, Damage) for item in items) or len([i for i in items if isinstance(i, Record)])
        assert doubt_about(path, tmp_path / f"{number}", monkeypatch) is not None
        data[at] ^= bit


def test_small_captures_start_no_process(tmp_path: Path) -> None:
    with pytest.raises(Doubt, match="small"):
        load_plain(maker(5).write(tmp_path / "s.mcpcap"), tmp_path / "x", "A", options="", memory=MEMORY)


# ---- over HTTP


def http_maker(steps: int = 0, *, seed: int = 7, key: str | None = KEY) -> HttpMaker:
    made = next(made for made in map(HttpMaker, map(Random, range(seed, seed + 99))) if made.given == key)
    made.talk(steps, oddity=0.0, trouble=0.0)
    return made


def equal(made: Maker, place: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Both ways to load a capture, which SQL must load, with the same rows."""
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(place / "made.mcpcap"), place / "rows")
    assert both.doubt is None
    assert both.differences() == {}
    return both


def told(both: Both, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(both.plain)) as connection:
        return connection.execute(sql).fetchall()


def ask(made: HttpMaker, id_: int = 77, **params: Any) -> Exchange:
    """A request that has no response yet, and its exchange."""
    made.say("c2s", id=id_, method="tools/call", params={"name": "t", **params})
    return made.exchanges[made.highest]


def test_response_in_a_stream_with_progress_and_a_request_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = http_maker()
    exchange = ask(made, _meta={"progressToken": 5})
    made.respond(exchange, is_stream=True)
    made.event(
        exchange, b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}'
    )
    made.event(exchange, b'{"jsonrpc":"2.0","id":"s","method":"roots/list"}')
    made.ns += 10**9
    made.say("c2s", id="s", result={"roots": []})
    made.event(exchange, b'{"jsonrpc":"2.0","id":77,"result":{}}')
    made.end(exchange)
    both = equal(made, tmp_path, monkeypatch)
    row = "select outcome, progress, waiting_ms >= 1000, exchange from exchanges where id = '77'"
    assert told(both, row) == [("result", 1, True, exchange.number)]


@pytest.mark.parametrize(
    ("ended_by", "status", "cancelled", "outcome"),
    [
        ("complete", 500, False, "failed"),
        ("error", None, False, "failed"),
        ("client", None, True, "cancelled"),
        ("complete", 404, True, "failed"),
        ("server", 200, False, "unanswered"),
        ("complete", 202, False, "unanswered"),
    ],
)
def test_request_whose_exchange_ends_without_a_response(
    ended_by: str, status: int | None, cancelled: bool, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = http_maker()
    exchange = ask(made)
    if cancelled:
        made.say("c2s", method="notifications/cancelled", params={"requestId": 77, "reason": "enough"})
    made.end(exchange, ended_by, status)
    ask(made, id_=78)
    both = equal(made, tmp_path, monkeypatch)
    open_then = 1 + (outcome == "unanswered")
    assert told(both, "select outcome from exchanges where id = '77'") == [(outcome,)]
    assert told(both, "select in_flight from exchanges where id = '78'") == [(open_then,)]


def test_id_is_free_again_when_its_exchange_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = http_maker()
    made.end(ask(made), status=500)
    made.end(ask(made), status=500)
    exchange = ask(made)
    made.respond(exchange, is_stream=True)
    made.event(exchange, b'{"jsonrpc":"2.0","id":77,"result":{}}')
    both = equal(made, tmp_path, monkeypatch)
    assert told(both, "select outcome from exchanges where id = '77' order by request") == [
        ("failed",),
        ("failed",),
        ("result",),
    ]


@pytest.mark.parametrize("key", [KEY, None])
def test_rows_that_are_written_early_because_there_are_many(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (table_rows, exchanges):
        monkeypatch.setattr(module, "MOST_HTTP", 5)
    made = http_maker(key=key)
    listening = made.begin("GET")
    made.respond(listening, is_stream=True)
    silent = made.begin("GET")
    for _ in range(30):
        exchange = ask(made)
        made.respond(exchange, is_stream=True)
        made.event(exchange, b'{"jsonrpc":"2.0","id":77,"result":{}}')
        made.end(exchange)
    for _ in range(3):
        made.event(listening, b'{"jsonrpc":"2.0","method":"notifications/message"}')
    made.end(listening)
    made.tell(silent, "response", response={"status": 200})
    both = equal(made, tmp_path, monkeypatch)
    rows = "select session, events from http_exchanges where exchange = {}"
    assert (1, listening.events) in told(both, rows.format(listening.number))
    assert len(told(both, rows.format(listening.number))) > 1
    assert told(both, rows.format(silent.number)) == [(None, 0)] * 2


def test_what_the_fold_may_have_forgotten_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "LATE", 9)
    monkeypatch.setattr(addressing, "KEPT", 12)
    made = http_maker()
    listening = made.begin("GET")
    made.respond(listening, is_stream=True)
    for number in range(100, 120):
        made.say("c2s", id=number, method="ping")
        made.say("s2c", id=number, result={})
    made.event(listening, b'{"jsonrpc":"2.0","id":"s","method":"roots/list"}')
    made.say("c2s", id="s", result={"roots": []})
    why = doubt_about(made.write(tmp_path / "old.mcpcap"), tmp_path / "rows", monkeypatch)
    assert why == "a reference to an exchange that is very old or has no name"


def stranger(made: HttpMaker) -> None:
    made.frame_in(made.begin(key="hmac:other"), b'{"jsonrpc":"2.0","id":1,"method":"ping"}')


def renamed(made: HttpMaker) -> None:
    exchange = made.begin()
    exchange.response = {"status": 200, "headers": [["Mcp-Session-Id", "hmac:new"]]}
    made.end(exchange)


def resumed(made: HttpMaker) -> None:
    exchange = made.begin("GET")
    made.respond(exchange)
    made.add("stream", members(**exchange.place, dir="s2c", event="opened", last_event_id="1"))


def behind_the_end(made: HttpMaker) -> None:
    exchange = made.begin()
    made.end(exchange)
    made.end(exchange)


def older(made: HttpMaker) -> None:
    exchange = made.begin("GET")
    made.add("exchange", members(**exchange.place, stage="response", uri_key="hmac:address"))


def crowded(made: HttpMaker) -> None:
    exchange = ask(made)
    made.frame_in(exchange, b'{"jsonrpc":"2.0","method":"x"}')


def numbered(made: HttpMaker) -> None:
    made.highest += 20_000
    made.begin()


def silent(made: HttpMaker) -> None:
    made.ns += 31 * 60 * 10**9
    made.say("c2s", method="x")


@pytest.mark.parametrize(
    ("spoil", "key", "why"),
    [
        (stranger, KEY, "a frame of another session or of no exchange"),
        (stranger, None, "a frame of another session or of no exchange"),
        (renamed, KEY, "another session id"),
        (renamed, None, "another session id"),
        (resumed, KEY, "a resumed stream"),
        (behind_the_end, KEY, "an exchange that goes on behind its end"),
        (older, KEY, "the older transport"),
        (crowded, KEY, "several bodies of a client in one exchange"),
        (numbered, KEY, "exchanges that are missing"),
        (silent, None, "a long silence of a client without a session id"),
    ],
)
def test_exchanges_of_another_kind_are_left_to_the_fold(
    spoil: Callable[[HttpMaker], None],
    key: str | None,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = http_maker(20, key=key)
    spoil(made)
    assert doubt_about(made.write(tmp_path / "spoilt.mcpcap"), tmp_path / "rows", monkeypatch) == why


def test_doubts_are_plain_words() -> None:
    assert exchanges.__file__ is not None
    why = re.findall(r'Doubt\("([^"]*)"\)', Path(exchanges.__file__).read_text())
    assert len(why) > 10
    assert [one for one in why if not parent._PLAIN_WORDS.fullmatch(one)] == []


# ---- the process


def large(made: Maker, place: Path) -> Path:
    """A capture that is worth the process."""
    while sum(map(len, made.lines[-1:])) * made.seq < 2 * parent.SMALLEST:
        for _ in range(500):
            made.number += 1
            made.say("c2s", id=made.number, method="tools/call", params={"name": "echo", "arguments": {"x": "y" * 900}})
            made.say("s2c", id=made.number, result={"content": [{"type": "text", "text": "z" * 900}]})
    return made.write(place / "large.mcpcap")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return large(maker(60), tmp_path_factory.mktemp("big"))


def how(database: Path | None) -> str:
    assert database is not None
    with duckdb.connect(str(database), read_only=True) as connection:
        (row,) = connection.execute("select how from made_of").fetchall()
    return str(row[0])


def test_process_of_its_own_makes_the_cache_file(big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (source,) = sources([big]).readable
    assert how(source.database) == cache.BY_SQL
    both = Both(big, tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def test_process_of_its_own_loads_a_capture_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = large(http_maker(60), tmp_path)
    (source,) = sources([path]).readable
    assert how(source.database) == cache.BY_SQL
    both = Both(path, tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def test_killed_process_costs_only_time(big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(PythonChild):
        def __init__(self, module: str, *, bare: bool = False) -> None:
            super().__init__(module, bare=bare)
            self.kill()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parent, "PythonChild", Dying)
    (source,) = sources([big]).readable
    assert how(source.database) == "the child has died"
    assert source.database is not None
    with duckdb.connect(str(source.database), read_only=True) as connection:
        assert connection.execute("select count(*) > 1000 from frames").fetchall() == [(True,)]


@pytest.mark.parametrize("fault", [AttributeError("x"), duckdb.InternalException("x")])
def test_fault_costs_only_time(fault: Exception, big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Lines, report: object) -> None:
        raise fault

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Lines, "read", fail)
    (source,) = sources([big]).readable
    assert how(source.database) == f"a fault: {type(fault).__name__}"


def test_child_opens_only_the_capture_and_its_file(tmp_path: Path) -> None:
    capture, other = tmp_path / "a.mcpcap", tmp_path / "other.json"
    capture.write_bytes(b"{}\n")
    other.write_text("{}\n")
    setup = {
        **{name: os.fsencode(tmp_path / end).hex() for name, end in (("database", "d.duckdb"), ("spilled", "s"))},
        "segments": [os.fsencode(capture).hex()],
        **dict.fromkeys(("id", "key", "wall", "first", "revision", "server_revision", "server_era", "used")),
        "is_http": False,
        "far": 0,
        "memory": MEMORY,
        "threads": 1,
        "options": cache._OPTIONS,
    }
    with child.locked(setup) as connection:
        assert connection.execute(f"select count(*) from read_json('{capture}')").fetchall() == [(1,)]
        for statement in (
            f"select * from read_json('{other}')",
            f"select * from read_text('{tmp_path}/../*')",
            f"copy (select 1) to '{other}'",
            f"attach '{tmp_path}/new.duckdb'",
            "select * from read_json('https://localhost/x')",
            "install httpfs",
            "load httpfs",
            "set enable_external_access = true",
            f"set allowed_paths = ['{other}']",
            "set memory_limit = '10GB'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
    assert other.read_text() == "{}\n"
    assert not (tmp_path / "new.duckdb").exists()


def test_kernel_limits_the_child(tmp_path: Path) -> None:
    names = ("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_AS")
    code = (
        "import json, resource; from analysis.store.plain import child; "
        "child._limit_all({'memory': 10**8, 'processor_s': 9, 'largest': 10**6}); "
        f"print(json.dumps([resource.getrlimit(getattr(resource, n))[1] for n in {names}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[3])
    core, files, processor_s, largest, space = json.loads(done.stdout)
    assert (core, files, processor_s, largest) == (0, child.DESCRIPTORS, 9, 10**6)
    assert 10**8 < space < 16 << 30
    assert resource.getrlimit(resource.RLIMIT_CPU)[1] == resource.RLIM_INFINITY
