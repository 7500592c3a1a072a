"""The screens know what the fold knows of a capture, read in steps of any size; filters select as `show` does."""

import random
import time
from array import array
from collections.abc import Container
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.conversation.call import MessageContext
from analysis.conversation.call_table import CallTable
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.filter import Filter, facts_of, facts_of_batch, parse
from captures.file import CaptureFile
from captures.frame import Frame
from captures.reader import Capture, assembled_items
from mcpproxy.tui.data import column_filler
from mcpproxy.tui.data import reading as reading_module
from mcpproxy.tui.data.latencies import Latencies
from mcpproxy.tui.data.scan import Scan
from tests.analysis.client_captures import ENVIRONMENT_HASH, TRACE, TURN, write_codex, write_others
from tests.analysis.traces import corpus
from tests.captures.samples import every_type, header, in_pieces, lines
from tests.examples import examples
from tests.harness import DEADLINE_S, ROOT
from tests.heavy import MIB, SHAPES
from tests.mcpproxy.tui.http_talk import post
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    INITIALIZE,
    INITIALIZED,
    WRONG,
    captured,
    conversation,
    frame_record,
    record,
)

CORPUS = ROOT / "tests/corpus/captures"
PING = b'{"jsonrpc":"2.0","id":99,"method":"ping"}'
BATCH = b'[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]'
ANSWERS = b'[{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","id":7,"result":{}}]'
PRETTY = [frame_record("c2s", line) for line in (b"{", b'  "jsonrpc": "2.0", "id": 5,', b'  "method": "ping"', b"}")]
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'


def read(path: Path) -> Reading:
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    return reading


def pairs_of(path: Path) -> set[tuple[int, int, int, str]]:
    """The numbers of request and response, the latency and the outcome of every exchange that the fold yields."""
    fold, found = Fold(), set()
    for item in assembled_items(Capture(path)):
        for context in fold.feed(item):
            call = context.answered
            if call is not None and call.response is not None:
                pair = call.request.seq, call.response.seq
                found.add((*pair, call.latency_ns or 0, str(call.outcome)))
    return found


def pairs_in(reading: Reading) -> set[tuple[int, int, int, str]]:
    calls, index = reading.calls, reading.index
    return {
        (
            index.entry(calls.request[number]).seq,
            index.entry(calls.response[number]).seq,
            calls.latency_ns[number],
            str(reading.outcome(number)),
        )
        for number in range(len(calls))
        if calls.latency_ns[number] >= 0
    }


SAID = st.lists(
    st.sampled_from(
        [
            frame_record("c2s", CALL % (1, 1)),
            frame_record("c2s", CALL % (2, 2)),
            frame_record("s2c", FINE % (1, 1)),
            frame_record("s2c", WRONG % 2),
            frame_record("c2s", CANCEL),
            frame_record("c2s", BATCH),
            frame_record("s2c", ANSWERS),
            frame_record("s2c", b"Loaded"),
            frame_record("s2c", CALL % (1, 9)),
            *PRETTY,
            *in_pieces("s2c", FINE % (2, 2), 20),
        ]
    ),
    max_size=25,
)


@given(SAID)
@examples(30)
def test_exchanges_are_those_of_the_fold(
    tmp_path_factory: pytest.TempPathFactory, middles: list[tuple[str, bytes]]
) -> None:
    path = record(tmp_path_factory.mktemp("any") / "x.mcpcap", [("header", header()), *middles, END])
    reading = read(path)
    items = list(assembled_items(Capture(path)))
    assert reading.interpreted_count == len(reading.index) == len(items)
    assert pairs_in(reading) == pairs_of(path)
    for row in range(len(items)):
        other = reading.partner(row)
        assert other is None or reading.call(other) is not None
    assert all(reading.outcome(number) is not None for number in range(len(reading.calls)))
    reading.close()


def test_it_says_the_same_of_a_file_that_grows(tmp_path: Path) -> None:
    rng, known = (
        random.Random(1),
        lines([*conversation(30), *PRETTY, frame_record("c2s", BATCH), frame_record("s2c", ANSWERS), END]),
    )
    made = CaptureFile(tmp_path / "x.mcpcap")
    made.append(known[0])
    reading = Reading(tmp_path / "x.mcpcap")
    assert reading.is_live
    for line in known[1:]:
        made.append(line)
        for _ in range(rng.randrange(4)):
            reading.step()
    made.close()
    while not reading.has_ended:
        reading.step()
    again = read(tmp_path / "x.mcpcap")
    assert pairs_in(reading) == pairs_in(again) == pairs_of(tmp_path / "x.mcpcap")
    assert (reading.shown_rows, reading.columns.marks, reading.columns.call_of) == (
        again.shown_rows,
        again.columns.marks,
        again.columns.call_of,
    )
    reading.close()
    again.close()


def test_a_call_that_is_refused_after_its_cancellation_has_failed(tmp_path: Path) -> None:
    *asked, _, _, end = post(2, CALL % (2, 2), FINE % (2, 2))
    refused = end[0], end[1].replace(b'"status":200', b'"status":400')
    made = [*post(1, INITIALIZE, INITIALIZED), *asked, *post(3, CANCEL), refused]
    in_session = [
        (rec, middle.replace(b'[["Host"', b'[["Mcp-Session-Id","hmac:0123456789abcdef"],["Host"'))
        for rec, middle in made
    ]
    path = record(tmp_path / "x.mcpcap", [("header", header(transport="http")), *in_session, END])
    reading = read(path)
    assert [call.outcome for call in analysis.calls(path)][-1] == reading.outcome(1) == "failed"
    assert reading.calls.is_cancelled[1]
    latencies = Latencies(reading)
    while latencies.step():
        pass
    assert [row.errors for row in latencies.rows if row.kind.method == "tools/call"] == [1]
    reading.close()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_killed_recorder_is_reported(tmp_path: Path, is_read: bool) -> None:
    # After the kill nothing more is read, and the screen is drawn only if a step reports a change.
    made = CaptureFile(tmp_path / "x.mcpcap")
    made.append(b"".join(lines(conversation(3))))
    reading = Reading(tmp_path / "x.mcpcap")
    while is_read and reading.step():
        pass
    made.close()
    end = time.monotonic() + DEADLINE_S
    while not (is_new := reading.step()) or not reading.has_ended:
        assert time.monotonic() < end
    assert is_new
    assert reading.is_killed
    assert not reading.step()
    reading.close()


def test_rows_are_all_frames_and_events_worth_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(every_type()))
    reading = read(path)
    sorts = [reading.index.kind(row) for row in reading.shown_rows]
    assert {"header", "stall"}.isdisjoint(sorts)
    assert {"stderr", "gap", "signal", "close", "process", "eof"} <= set(sorts)
    assert sum(reading.index.is_frame(row) for row in reading.shown_rows) == reading.index.frame_count
    reading.close()


FILTERS = (
    *(
        "method:tools/call",
        "kind:request",
        "latency>=1ms",
        "not has:answer",
        "has:error",
        "has:failure",
        "id:7",
        "kind:batch",
        "found",
    ),
    *("has:id kind:response", "name:*", "kind:invalid", "kind:unjudged", "has:problem", "code<0", "session:2"),
    *("size>30", "frame:3..9", "dir:s2c not method:*", "exchange>=1 kind:notification", "problem:framing/*"),
    *(
        "text:found",
        "text:FOUND",
        "found dir:s2c",
        "text:found not method:*",
        "not text:found",
        "found or kind:request",
        "not found not kind:request",
        "has:waiting or latency<5s",
    ),
)


def selected_by(path: Path, only: Filter) -> set[int]:
    """The frames that a filter selects by the facts of the fold, once all outcomes are known."""
    fold, wanted = Fold(), set()
    contexts: list[MessageContext] = []
    for item in assembled_items(Capture(path)):
        contexts += fold.feed(item)
        if isinstance(item, Frame) and item.verdict.kind == "batch" and only.matches(facts_of_batch(item)):
            wanted.add(item.seq)
    fold.open_calls()
    for one in contexts:
        end = one.call if isinstance(one.message, Request) else None
        if only.matches(facts_of(one, end)):
            wanted.add(one.message.seq)
    return wanted


def selected(reading: Reading, scan: Scan) -> set[int]:
    """The frames that a scan has selected; it also selects records of logins that failed."""
    assert list(scan.rows) == sorted(set(scan.rows))
    return {reading.index.entry(row).seq for row in scan.rows if reading.index.is_frame(row)}


SEVERAL = b'{"jsonrpc":"2.0","id":7,"result":{}} {"jsonrpc":"2.0","method":"found"}'
"""Two messages on one line."""
TALK = (
    *(
        *conversation(9),
        frame_record("c2s", BATCH),
        frame_record("s2c", ANSWERS),
        frame_record("s2c", b"found nothing"),
        frame_record("s2c", SEVERAL),
    ),
    *(*PRETTY[:2], frame_record("s2c", FINE), *PRETTY[2:], frame_record("c2s", b"{"), frame_record("c2s", PING), END),
)


def test_a_filter_selects_what_the_facts_say(tmp_path: Path) -> None:
    path = record(tmp_path / "x.mcpcap", TALK)
    reading = read(path)
    for text in FILTERS:
        scan = Scan(reading, parse(text))
        while not scan.has_ended:
            scan.step()
        assert selected(reading, scan) == selected_by(path, scan.row_filter), text
        scan.close()
    reading.close()


def test_a_filter_selects_the_calls_of_a_turn(tmp_path: Path) -> None:
    captures = {path.stem: path for path in (*write_codex(tmp_path), *write_others(tmp_path))}
    for server, text, count in (
        ("files", f"turn:{TURN}", 4),
        ("search", f"turn:{TURN}", 2),
        ("maps", f"client_session:{ENVIRONMENT_HASH}", 4),
        ("issues", f"trace:{TRACE} kind:response", 1),
        ("music", "client_session:*", 0),
    ):
        reading = read(captures[server])
        scan = Scan(reading, parse(text))
        while not scan.has_ended:
            scan.step()
        assert len(selected(reading, scan)) == count, (server, text)
        assert selected(reading, scan) == selected_by(captures[server], scan.row_filter), (server, text)
        scan.close()
        reading.close()


def test_a_filter_selects_the_same_while_a_file_grows(tmp_path: Path) -> None:
    known = lines([*TALK])
    for text in FILTERS:
        rng, only, path = random.Random(text), parse(text), tmp_path / "x.mcpcap"
        made = CaptureFile(path)
        made.append(known[0])
        reading = Reading(path)
        scan = Scan(reading, only)
        for line in known[1:]:
            made.append(line)
            for step in rng.choices([reading.step, scan.step], k=rng.randrange(5)):
                step()
        made.close()
        while not scan.has_ended:
            rng.choice([reading.step, scan.step])()
        assert selected(reading, scan) == selected_by(path, only), text
        scan.close()
        reading.close()
        path.unlink()


def agree_on_the_corpus(tmp_path: Path, each: int, filters: int) -> None:
    """Compare every `each`th case of the corpus, with one of every `filters` filters."""
    for number, (_, case) in list(enumerate(corpus()))[::each]:
        path = tmp_path / f"{number}.mcpcap"
        path.write_bytes(b"".join(line for _, line in case.records()))
        reading = read(path)
        for text in FILTERS[number % filters :: filters]:
            scan = Scan(reading, parse(text))
            while not scan.has_ended:
                scan.step()
            assert selected(reading, scan) == selected_by(path, scan.row_filter), (case.name, text)
            scan.close()
        reading.close()


def test_a_filter_selects_what_the_facts_say_in_the_corpus(tmp_path: Path) -> None:
    agree_on_the_corpus(tmp_path, each=11, filters=len(FILTERS) // 2)


def test_a_filter_selects_requests_that_were_repeated_after_a_redirect(tmp_path: Path) -> None:
    [case] = [case for _, case in corpus() if case.name == "redirected-twice"]
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in case.records()))
    reading = read(path)
    requests = scanned(reading, "kind:request", frozenset())
    assert len(requests) == 3
    assert scanned(reading, "kind:request method:*", frozenset()) == requests
    assert scanned(reading, "kind:request has:id", frozenset()) == requests
    reading.close()


@pytest.mark.soak
def test_a_filter_selects_what_the_facts_say_in_the_whole_corpus(tmp_path: Path) -> None:
    agree_on_the_corpus(tmp_path, each=1, filters=3)


def scanned(reading: Reading, text: str, marks: Container[int]) -> list[int]:
    """The rows of a capture that a filter selects."""
    scan = Scan(reading, parse(text), marks)
    while not scan.has_ended:
        scan.step()
    scan.close()
    return list(scan.rows)


@pytest.mark.parametrize("name", ["demo", "gaps", "http", "killed", "stdio", "damaged", "gap", "odd-bytes"])
def test_any_row_that_is_marked_is_found(name: str) -> None:
    reading = read(CORPUS / f"{name}.mcpcap")
    for part in range(3):
        rows = [row for row in reading.shown_rows[part::3] if reading.index.kind(row) != "damage"]
        marks = {reading.index.entry(row).seq for row in rows}
        assert scanned(reading, "has:mark", marks) == rows
        # `not` does not select a row that is neither a message nor marked.
        others = scanned(reading, "not has:mark", marks)
        assert others
        assert not set(others) & set(rows)
        assert all(reading.index.is_frame(row) for row in others)
    reading.close()


def test_a_marked_row_that_is_no_message_has_its_text(tmp_path: Path) -> None:
    middles = [*conversation(), *PRETTY, END]
    reading = read(record(tmp_path / "x.mcpcap", middles))
    [log] = reading.stderr_rows
    last = len(reading.index) - 2
    marks = {reading.index.entry(row).seq for row in (log, last, last + 1)}
    assert scanned(reading, "has:mark", marks) == [log, last, last + 1]
    assert scanned(reading, "has:mark shelves", marks) == [log]
    assert scanned(reading, "has:mark kind:request", marks) == [last]
    assert scanned(reading, "has:mark not kind:request", marks) == [log, last + 1]
    assert scanned(reading, "shelves", marks) == []
    reading.close()


def test_a_filter_selects_no_row_that_the_list_does_not_know_yet(tmp_path: Path) -> None:
    told = lines([*conversation(40), END])
    made = CaptureFile(tmp_path / "x.mcpcap")
    for line in told[:40]:
        made.append(line)
    reading = Reading(tmp_path / "x.mcpcap")
    while reading.step():
        pass
    scan = Scan(reading, parse("kind:request or kind:response"))
    for line in told[40:]:
        made.append(line)
    made.close()
    while scan.step():
        pass
    known = len(reading.index)
    assert scan.rows[-1] < known
    while not reading.has_ended:
        reading.step()
    while not scan.has_ended:
        scan.step()
    assert known < scan.rows[-1] < len(reading.index)
    scan.close()
    reading.close()


def test_an_index_and_its_columns_fit_the_memory(tmp_path: Path) -> None:
    reading = read(captured(tmp_path, calls=1_000))
    calls, rows = reading.calls, reading.columns
    arrays = (reading.shown_rows, rows.call_of, rows.sessions, *vars(calls).values())
    columns = [column for column in arrays if isinstance(column, array)]
    assert len(columns) == 13
    size = reading.index.nbytes + len(rows.marks) + sum(len(column) * column.itemsize for column in columns)
    assert size / len(reading.index) < 64
    reading.close()


def test_rows_behind_the_last_that_is_kept_are_counted_and_nothing_is_said_of_their_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "MAX_ROWS", 100)
    path = captured(tmp_path, calls=200)
    count = sum(1 for _ in assembled_items(Capture(path)))
    reading = read(path)
    assert (len(reading.index), reading.interpreted_count, reading.index.left_out_count) == (100, 100, count - 100)
    (told,) = reading.forgotten
    assert told.startswith(f"{count - 100} records after the first 100 are not shown here")
    assert not reading.is_killed
    assert all(reading.outcome(number) in (None, "result", "error") for number in range(len(reading.calls)))
    scan = Scan(reading, parse("method:tools/call"))
    while not scan.has_ended:
        scan.step()
    assert scan.scanned_count == 100
    assert max(scan.rows) < 100
    scan.close()
    reading.close()


def shaped(path: Path, shape: str, size: int) -> Path:
    """A capture of a heavy shape, at least `size` bytes long."""
    middles = [("header", header(name=shape))]
    for entry in SHAPES[shape]():
        middles.append((entry.rec, entry.middle))
        size -= len(entry.middle)
        if size <= 0:
            break
    return record(path, [*middles, END])


def test_requests_behind_the_last_that_is_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shaped(tmp_path / "batches.mcpcap", "batches", MIB // 8)
    monkeypatch.setattr(reading_module, "MAX_ROWS", 1_000)
    reading = read(path)
    assert len(reading.calls) == 1_000
    assert any(
        one.startswith(f"{reading.conversation.omitted_counts[0]:,} requests after") for one in reading.forgotten
    )
    reading.close()


def test_a_request_that_was_forgotten_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallTable.__init__, "__defaults__", (500, MIB))
    reading = read(shaped(tmp_path / "unanswered.mcpcap", "unanswered", MIB // 2))
    assert reading.conversation.forgotten
    assert [one for one in reading.forgotten if "requests were forgotten" in one]
    outcomes = {reading.outcome(number) for number in range(len(reading.calls))}
    assert outcomes == {None, "result", "unanswered"}
    reading.close()


def test_rare_notes_about_requests_are_bounded_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_filler, "MAX_SPANNING_MESSAGES", 2)
    monkeypatch.setattr(reading_module, "MAX_SPANNING_MESSAGES", 2)
    parts = [frame_record("c2s", line) for line in (b"{", b'"jsonrpc": "2.0", "method": "notifications/x"', b"}")]
    path = record(tmp_path / "a.mcpcap", [*conversation(1, "spanning"), *parts * 5, END])
    reading = read(path)
    assert sum(reading.last_joined_row(row) is not None for row in reading.shown_rows) == 2
    assert reading.forgotten == ["3 messages that span lines are shown as lines: there are more than 2"]
    reading.close()


def test_a_call_that_is_answered_no_longer_waits(tmp_path: Path) -> None:
    told = lines([*conversation(3), frame_record("s2c", FINE % (99, 99)), END])
    made = CaptureFile(tmp_path / "x.mcpcap")
    for line in told[:-2]:
        made.append(line)
    reading = Reading(tmp_path / "x.mcpcap")
    scan = Scan(reading, parse("has:waiting or has:failure"))
    while any([reading.step(), scan.step()]):
        pass
    failed = [9]
    assert [reading.index.entry(row).seq for row in scan.rows] == [*failed, 11]
    made.append(told[-2])
    while any([reading.step(), scan.step()]):
        pass
    assert [reading.index.entry(row).seq for row in scan.rows] == failed
    made.append(told[-1])
    made.close()
    while not scan.has_ended:
        reading.step()
        scan.step()
    assert [reading.index.entry(row).seq for row in scan.rows] == failed
    scan.close()
    reading.close()
