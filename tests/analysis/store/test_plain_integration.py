"""Rows that SQL makes of a capture are those that the fold makes, or SQL leaves the capture to the fold."""

import fcntl
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from analysis.child_process import PythonChild
from analysis.conversation import addressing
from analysis.store import cache, table_rows
from analysis.store.open import sources
from analysis.store.plain import child, exchanges, parent
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.lines import Lines
from analysis.store.plain.parent import load_plain
from captures.damage import Damage
from captures.errors import CaptureError
from captures.reader import Capture
from captures.record import Record, members
from captures.verdict import Direction
from tests.analysis.store.both_ways import MEMORY, Both, InThread, Silent, Ways
from tests.analysis.store.hostile import ODD, Maker
from tests.analysis.store.hostile_http import KEY, Exchange, HttpMaker
from tests.analysis.traces import corpus

CORPUS = Path(__file__).parents[2] / "corpus"
FEW = ((Maker, 1), (HttpMaker, 1))
"""What the suite makes at random; `make soak` makes very many."""


# ---- equal rows are the contract


def compare_corpus(place: Path, every: int) -> Ways:
    with Ways(place) as ways:
        for number, (_, case) in enumerate(corpus()):
            if number % every == 0:
                path = place / f"{number}.mcpcap"
                path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))
                ways.compare(path)
    return ways


def compare_kept(place: Path) -> Ways:
    place.mkdir()
    with Ways(place) as ways:
        for path in sorted(CORPUS.rglob("*.mcpcap")):
            with suppress(CaptureError):  # no capture: nothing to compare
                Capture(path)
                ways.compare(path)
    return ways


def compare_made(place: Path, seed: int, make: type[Maker] = Maker) -> Ways:
    """A conversation in segments, a few frames that are nearly messages, and a line in an odd spelling."""
    place.mkdir(exist_ok=True)
    with Ways(place / f"{seed}") as ways:
        for name, steps, mutants, misspelt in (("talk", 60, 0, 0), ("frames", 10, 4, 0), ("lines", 10, 0, 1)):
            maker = make(Random(seed))
            maker.talk(steps)
            if name == "talk":
                maker.next_segment()
                maker.talk(steps)
            maker.mutate(mutants)
            if misspelt:
                maker.misspell()
            ways.compare(maker.write(place / f"{name}.mcpcap"))
    return ways


@pytest.mark.costly("each capture is loaded by SQL in four databases")
def test_captures_load_the_same_in_both_ways(tmp_path: Path) -> None:
    assert compare_corpus(tmp_path, 250).plain > 2
    assert compare_kept(tmp_path / "kept").plain > 0
    assert sum(compare_made(tmp_path / f"{number}", seed, make).plain for number, (make, seed) in enumerate(FEW)) > 4


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_the_whole_corpus_and_very_many_captures_load_the_same_in_both_ways(tmp_path: Path) -> None:
    assert compare_corpus(tmp_path, 1).plain > 500
    assert compare_kept(tmp_path / "kept").plain > 0
    for seed in range(int(os.environ.get("MCPPROXY_SOAK_CASES", "100_000")) // 6):
        compare_made(tmp_path, seed)
        compare_made(tmp_path / "http", seed, HttpMaker)


# ---- which captures, and what becomes of the others


def maker(steps: int = 0, *, seed: int = 7, oddity: float = 0.0) -> Maker:
    made = Maker(Random(seed))
    made.talk(steps, oddity=oddity, trouble=0.0)
    return made


def doubt_about(
    path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, child: type[Silent | InThread] = Silent
) -> str | None:
    """Why it is left to the fold, which shows before a database is asked, as a rule."""
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", child)
    doubt = Both(path, place).doubt
    assert doubt != "the child has died"
    return doubt


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a record of type gap": ("gap", {"first": 1, "last": 2}),
    "another record": ("exchange", {"exchange": 1}),
    "a record of type header": ("header", {"format": 1}),
}


def test_what_a_pipe_or_a_whole_capture_does_not_have_is_left_to_the_fold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (why, (rec, given)) in enumerate(OTHERS.items()):
        made = maker(5)
        made.add(rec, members(**given))
        assert doubt_about(made.write(tmp_path / "other.mcpcap"), tmp_path / f"{number}", monkeypatch) == why


def test_segments_are_loaded_as_one_and_one_odd_frame_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(100)
    for number, raw in enumerate(ODD):
        made.raw("c2s", raw)
        made.talk(2, oddity=0.0, trouble=0.0)
        if number % 4 == 0:
            made.next_segment()
    # A stall of a request that nothing can answer.
    made.say("c2s", id=None, method="no/id")
    made.ns += 10**9
    made.add("stall", members(dir="c2s", of=made.seq - 1, waited_ns=5_000_000))
    made.talk(100, oddity=0.0, trouble=0.0)
    ((problems,),) = told(equal(made, tmp_path, monkeypatch), "select count(problem) from frames")
    assert problems > 5


TALK: tuple[tuple[Direction, bytes, str | None], ...] = (
    ("c2s", b'{"jsonrpc":"2.0","id":"t1","method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}', "a"),
    ("s2c", b'{"jsonrpc":"2.0","id":"t1","result":{"content":[{"type":"text","text":"a","text":"b"}]}}', "a"),
    ("c2s", b'{"jsonrpc": "2.0", "id": "t2", "method": "tools/call", "params": {"name": "a", "name": "b"}}', "b"),
    (
        "s2c",
        b'{"jsonrpc":"2.0","id":"t2","result":{"content":[{"type":"text","text":"a","text":"b"}],"isError":true}}',
        "b",
    ),
    (
        "c2s",
        b'{"jsonrpc":"2.0","id":"t3","method":"tools/call","params":{"name":"c","arguments":{"a":[{"\xc3\xa9":1,"\\u00e9":1}]}}}',
        "c",
    ),
    ("s2c", b'{"jsonrpc":"2.0","id":"t3","error":{"code":1,"message":"a","data":{"a":{"b":1,"b":2}}}}', "c"),
    ("c2s", b'{"jsonrpc":"2.0","method":"notifications/x","params":{"":1,"":2}}', None),
    (
        "c2s",
        b'{"jsonrpc":"2.0","id":"t4","method":"x","params":{"_meta":{"a":1},"list":[{"a":1},{"a":1}]},"a":":"}',
        None,
    ),
    ("s2c", b'{"jsonrpc":"2.0","id":"t4","result":{"a":{"a":{"a":1}},"b":[]}}', None),
)
"""In all but the last two, an object has a member twice: at various depths, in different spellings."""


def test_message_that_has_a_member_twice_anywhere_is_none_in_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, first = maker(40), {}
    for direction, raw, name in TALK:
        first[made.seq] = raw, name
        made.raw(direction, raw)
    made.talk(40, oddity=0.0, trouble=0.0)
    both = equal(made, tmp_path, monkeypatch)
    sql = f"select seq, raw, name, message, message_problem from frames where seq in {tuple(first)} order by seq"
    assert told(both, sql) == [
        *((seq, raw, name, None, "duplicate member") for seq, (raw, name) in [*first.items()][:-2]),
        *((seq, raw, name, raw.decode(), None) for seq, (raw, name) in [*first.items()][-2:]),
    ]
    rest = f"from frames where seq not in {tuple(first)}"
    assert told(both, f"select count(*) filter (where message is null), count(message_problem) {rest}") == [(0, 0)]
    errors = told(both, "select error from exchanges where id in ('\"t2\"', '\"t3\"') order by request")
    assert errors == [("b",), ("a",)]


# ---- while it grows


@contextmanager
def being_recorded(path: Path) -> Iterator[None]:
    """Hold the lock of a recorder."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compare_growing(kind: type[Maker], seed: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """A capture of one or two segments whose last record is not written yet, or not all of it."""
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    made = kind(Random(seed))
    made.talk(40, trouble=0.0)
    if seed % 3 == 0:
        made.next_segment()
        made.talk(10, trouble=0.0)
    made.lines.append(made.lines[-1][: seed * 7 % len(made.lines[-1])])
    path = made.write(place / f"growing-{seed}-{kind.__name__}.mcpcap")
    last = path.with_suffix(".2.mcpcap") if seed % 3 == 0 else path
    with being_recorded(last):
        both = Both(path, place / f"rows-{seed}-{kind.__name__}")
    if both.doubt is None:
        assert both.differences(is_growing=True) == {}
        assert told(both, "select is_live from captures") == [(True,)]
    return both


def test_growing_captures_are_loaded_up_to_their_last_whole_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare_growing(Maker, 1, tmp_path, monkeypatch).doubt is None
    assert compare_growing(HttpMaker, 3, tmp_path, monkeypatch).doubt is None


@pytest.mark.soak
def test_many_growing_captures_are_loaded_up_to_their_last_whole_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(100):
        compare_growing(Maker, seed, tmp_path, monkeypatch)
        compare_growing(HttpMaker, seed, tmp_path, monkeypatch)


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
        assert doubt_about(path, tmp_path / "rows", monkeypatch, InThread) == "a segment that is gone"


def test_what_comes_while_a_capture_is_loaded_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(40)
    path, lines = tmp_path / "growing.mcpcap", made.lines
    path.write_bytes(b"".join(lines[:-9]))
    waiting = lines[-9:]

    def go_on_before(name: str) -> None:
        real: Callable[..., Any] = getattr(parent, name)

        def then_go_on(*given: Any) -> Any:
            with path.open("ab") as file:
                file.writelines(waiting[:3])
            del waiting[:3]
            return real(*given)

        monkeypatch.setattr(parent, name, then_go_on)

    for name in ("opening_of", "_copied", "_loaded"):
        go_on_before(name)
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    with being_recorded(path):
        both = Both(path, tmp_path / "rows")
    assert both.doubt is None
    # What was there when its end was looked for: three came before, and three thereafter.
    frames = [seq for seq, line in enumerate(lines[:-3]) if b'"rec":"frame"' in line]
    assert [seq for (seq,) in told(both, "select seq from frames order by seq")] == frames
    assert waiting == []


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


SPOILT: tuple[Callable[[Maker], None], ...] = (
    no_header,
    foreign_header,
    later_header,
    no_close,
    other_close,
    late_header,
    torn_end,
    empty_between,
    header_only_in_the_middle,
)


def test_segments_of_another_kind_are_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spoil in SPOILT:
        made, place = maker(5), tmp_path / spoil.__name__
        place.mkdir()
        spoil(made)
        made.talk(5, oddity=0.0, trouble=0.0)
        path = made.write(place / "spoilt.mcpcap")
        assert doubt_about(path, place / "rows", monkeypatch) is not None, spoil.__name__


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


ENDS: tuple[tuple[str, int | None, bool, str], ...] = (
    ("complete", 500, False, "failed"),
    ("error", None, False, "failed"),
    ("complete", 404, True, "failed"),
)


def test_what_becomes_of_requests_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = http_maker()
    # A response in a stream, with progress and a request of the server.
    streamed = ask(made, _meta={"progressToken": 5})
    made.respond(streamed, is_stream=True)
    made.event(
        streamed, b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}'
    )
    made.event(streamed, b'{"jsonrpc":"2.0","id":"s","method":"roots/list"}')
    made.ns += 10**9
    made.say("c2s", id="s", result={"roots": []})
    made.event(streamed, b'{"jsonrpc":"2.0","id":77,"result":{}}')
    made.end(streamed)
    # An id is free again when its exchange has failed.
    made.end(ask(made, id_=88), status=500)
    made.end(ask(made, id_=88), status=500)
    again = ask(made, id_=88)
    made.respond(again, is_stream=True)
    made.event(again, b'{"jsonrpc":"2.0","id":88,"result":{}}')
    # Exchanges that end without a response.
    wanted, open_then = [], 0
    for number, (ended_by, status, cancelled, outcome) in enumerate(ENDS):
        exchange = ask(made, id_=100 + number)
        if cancelled:
            params = {"requestId": 100 + number, "reason": "enough"}
            made.say("c2s", method="notifications/cancelled", params=params)
        made.end(exchange, ended_by, status)
        ask(made, id_=200 + number)
        open_then += 1 + (outcome == "unanswered")
        wanted.append((outcome, open_then))
    both = equal(made, tmp_path, monkeypatch)
    row = "select outcome, progress, waiting_ms >= 1000, exchange from exchanges where id = '77'"
    assert told(both, row) == [("result", 1, True, streamed.number)]
    outcomes = told(both, "select outcome from exchanges where id = '88' order by request")
    assert outcomes == [("failed",), ("failed",), ("result",)]
    for number, (outcome, in_flight) in enumerate(wanted):
        assert told(both, f"select outcome from exchanges where id = '{100 + number}'") == [(outcome,)], ENDS[number]
        assert told(both, f"select in_flight from exchanges where id = '{200 + number}'") == [(in_flight,)], ENDS[
            number
        ]


def test_what_ended_without_a_response_is_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    for ended_by, status, doubt in (
        ("client", None, "a client that left"),
        ("complete", 202, "an exchange that ended without a response"),
    ):
        made = http_maker()
        made.end(ask(made), ended_by, status)
        both = Both(made.write(tmp_path / f"{ended_by}.mcpcap"), tmp_path / f"{ended_by} rows")
        assert both.doubt == doubt
    piped = maker(5)
    piped.say("c2s", id=900, method="ping")
    piped.add("eof", b',"dir":"s2c","by":"sender"')
    piped.say("c2s", method="notifications/cancelled", params={"requestId": 900})
    both = Both(piped.write(tmp_path / "cancelled.mcpcap"), tmp_path / "cancelled rows")
    assert both.doubt == "a cancellation of what had failed"


@pytest.mark.parametrize("ended_by", ["complete", "server", "client"])
def test_a_body_that_holds_no_response_is_left_to_the_fold(
    ended_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    made = http_maker()
    made.end(ask(made), ended_by, 200)
    both = Both(made.write(tmp_path / "made.mcpcap"), tmp_path / "rows")
    assert both.doubt == "a body without a response or a part of one"


@pytest.mark.parametrize("key", [KEY, pytest.param(None, marks=pytest.mark.soak)])
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
    why = doubt_about(made.write(tmp_path / "old.mcpcap"), tmp_path / "rows", monkeypatch, InThread)
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


STRANGE: tuple[tuple[Callable[[HttpMaker], None], str | None, str], ...] = (
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
)


def test_exchanges_of_another_kind_are_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (spoil, key, wanted) in enumerate(STRANGE):
        made = http_maker(20, key=key)
        spoil(made)
        path = made.write(tmp_path / f"{number}.mcpcap")
        assert doubt_about(path, tmp_path / f"rows-{number}", monkeypatch) == wanted, spoil.__name__


def test_doubts_are_plain_words() -> None:
    assert exchanges.__file__ is not None
    why = re.findall(r'Doubt\("([^"]*)"\)', Path(exchanges.__file__).read_text())
    assert len(why) > 10
    assert [one for one in why if not parent._PLAIN_WORDS.fullmatch(one)] == []


# ---- the process


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that is worth a cache file."""
    made = maker(60)
    for number in range(1000, 1100):
        made.say("c2s", id=number, method="tools/call", params={"name": "echo", "arguments": {"x": "y" * 900}})
        made.say("s2c", id=number, result={"content": [{"type": "text", "text": "z" * 900}]})
    return made.write(tmp_path_factory.mktemp("big") / "big.mcpcap")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a capture as small as that loaded by SQL."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parent, "SMALLEST", 0)


def how(database: Path | None) -> str:
    assert database is not None
    with duckdb.connect(str(database), read_only=True) as connection:
        (row,) = connection.execute("select how from made_of").fetchall()
    return str(row[0])


@pytest.mark.usefixtures("own_cache")
def test_process_of_its_own_makes_the_cache_file(big: Path) -> None:
    (source,) = sources([big]).readable
    assert how(source.database) == cache.BY_SQL
    assert rows_in(source.database) == len([line for line in big.read_bytes().splitlines() if b'"rec":"frame"' in line])


@pytest.mark.soak
@pytest.mark.usefixtures("own_cache")
def test_process_of_its_own_loads_large_captures(tmp_path: Path) -> None:
    for number, made in enumerate((maker(60), http_maker(60))):
        for id_ in range(4000):
            made.say("c2s", id=f"x{id_}", method="tools/call", params={"name": "echo", "arguments": {"x": "y" * 900}})
            made.say("s2c", id=f"x{id_}", result={"content": [{"type": "text", "text": "z" * 900}]})
        path = made.write(tmp_path / f"{number}.mcpcap")
        (source,) = sources([path]).readable
        assert how(source.database) == cache.BY_SQL
        both = Both(path, tmp_path / f"rows-{number}")
        assert both.doubt is None
        assert both.differences() == {}


@pytest.mark.usefixtures("own_cache")
def test_killed_process_costs_only_time(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(PythonChild):
        def __init__(self, module: str, *, bare: bool = False) -> None:
            super().__init__(module, bare=bare)
            self.kill()

    monkeypatch.setattr(parent, "PythonChild", Dying)
    (source,) = sources([big]).readable
    assert how(source.database) == "the child has died"
    assert rows_in(source.database) > 200


def rows_in(database: Path | None) -> int:
    assert database is not None
    with duckdb.connect(str(database), read_only=True) as connection:
        (row,) = connection.execute("select count(*) from frames").fetchall()
    return int(row[0])


@pytest.mark.usefixtures("own_cache")
def test_fault_costs_only_time(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in (AttributeError("x"), duckdb.InternalException("x")):

        def fail(self: Lines, report: object, *, fault: Exception = fault) -> None:
            raise fault

        cache.clear()
        monkeypatch.setattr(parent, "PythonChild", Silent)
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
