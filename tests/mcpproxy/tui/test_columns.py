"""What the worker sends is believed only as far as it can be checked, and rules never delay the meaning of messages."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.child_process import as_json
from analysis.reading import findings
from captures.file import CaptureFile
from mcpproxy.tui.data import columns as columns_module
from mcpproxy.tui.data import conversation as conversation_module
from mcpproxy.tui.data import output_caches, worker
from mcpproxy.tui.data import reading as reading_module
from mcpproxy.tui.data.columns import (
    CALLS,
    MAX_ROWS,
    NONE,
    OPEN,
    ROW_CELLS,
    UNUSUAL_WORDS,
    Batch,
    Columns,
    batch_in,
    runs,
    word_part,
)
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.detail import exchange_lines
from mcpproxy.tui.rows.finding_lines import row_lines
from mcpproxy.tui.rows.row_text import text_of
from tests.captures.samples import header, lines
from tests.examples import examples
from tests.mcpproxy.tui.in_process_reading import InProcessReading, pass_message
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    FLOAT,
    NOISE,
    UNKNOWN,
    captured,
    conversation,
    frame_record,
    record,
)

SPANNING = [frame_record("c2s", line) for line in (b"{", b'  "jsonrpc": "2.0", "id": 5,', b'  "method": "ping"', b"}")]
PINGS = b'[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]'
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
NONSENSE = (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""The exceptions by which `PythonChild.listen` recognises a message that makes no sense."""
ANYTHING: list[object] = [
    *(None, True, 0, -1, 1, 3, 0.5, float("inf"), float("nan"), 1 << 63, 1 << 64, 10**400),
    *("", "x", "\ud800", [], {}, [1], {"a": 1}, [[]]),
]
ODD = [
    *conversation(40),
    *SPANNING,
    frame_record("c2s", PINGS),
    frame_record("s2c", NOISE),
    frame_record("c2s", FLOAT),
    END,
]

CALLS_GIVEN_UP = [
    *(frame_record("c2s", CALL % (n, n)) for n in (100, 101)),
    *(frame_record("c2s", CANCEL % n) for n in (100, 101)),
]
WORDED = [*ODD[:-1], *CALLS_GIVEN_UP, frame_record("s2c", FINE % (100, 1)), frame_record("s2c", UNKNOWN), END]


def read(path: Path, *, with_rules: bool = False) -> InProcessReading:
    """A capture that was read to its end."""
    reading = InProcessReading(path, with_rules=with_rules)
    while not (reading.has_ended and reading.task.has_ended):
        reading.step()
    return reading


def indexed(path: Path) -> Reading:
    """A capture whose rows are known, but not what they mean."""
    reading = Reading(path)
    while reading.step():
        pass
    return reading


def cells(columns: Columns) -> list[bytes]:
    """The contents of all columns."""
    return [bytes(column) for group in columns._groups for column in group]


def look_at(reading: Reading) -> None:
    """Query everything that a screen queries of every row and every call."""
    for row in range(min(reading.interpreted_count, len(reading.index))):
        assert reading.partner(row) != NONE
        for ask in (
            reading.misfit,
            reading.starting_session,
            reading.session_of,
            reading.continued_rows,
            reading.columns.unusual_messages,
        ):
            ask(row)
        number = reading.call(row)
        assert number is None or reading.index.t_ns(reading.calls.request[number]) >= 0
    for number in range(len(reading.calls)):
        reading.waited_ns(number)
        reading.is_slow(number)
        assert reading.kinds.all[reading.calls.kind[number]].text
        assert reading.calls.end[number] == NONE or reading.index.t_ns(reading.calls.end[number]) >= 0
        assert reading.outcome(number) or reading.calls.outcome[number] == OPEN
    reading.next_bad_row(-1, 1)
    reading.next_bad_row(len(reading.index), -1)


def test_cells_that_come_again_change_nothing(tmp_path: Path) -> None:
    reading = read(record(tmp_path / "x.mcpcap", ODD))
    before = cells(reading.columns)
    for message in reading.heard:
        pass_message(reading, message)
    assert cells(reading.columns) == before
    assert reading.has_ended
    look_at(reading)
    reading.close()


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessReading]:
    """A capture that was read: each example gets the messages that its worker sent."""
    made = read(record(tmp_path_factory.mktemp("odd") / "x.mcpcap", ODD))
    yield made
    made.close()


@given(st.integers(0, 2**32))
@examples(60)
def test_what_makes_no_sense_is_refused_and_harms_nothing(odd: InProcessReading, seed: int) -> None:
    rng = random.Random(seed)
    reading = indexed(odd.path)
    with suppress(ValueError):
        for message in odd.heard:
            if batch_in(message) is None:
                pass_message(reading, message)
                continue
            spoilt = bytearray(message)
            for _ in range(rng.choice((0, 1, 1, 3))):
                spoilt[rng.randrange(1, len(spoilt))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            pass_message(
                reading, bytes(spoilt[: rng.choice((len(spoilt), len(spoilt), rng.randrange(1, len(spoilt))))])
            )
    look_at(reading)
    reading.close()


@pytest.mark.parametrize(
    "parts",
    [
        b"\x01",
        b"\xff\xff\x01\x00\x00\x00\x00\x00",
        bytes([ROW_CELLS, 0, 1, 0, 5, 0, 0, 0, *bytes(9)]),
        bytes([ROW_CELLS, 0, 1, 0, 0, 0, 0, 0, *bytes(8)]),
        bytes([ROW_CELLS, 0, 1, 0, 0, 0, 0, 0, *bytes(9)]),
        bytes([CALLS, 0, 1, 0, 0, 0, 0, 0, *bytes(35)]),
    ],
    ids=["cut", "no such column", "a hole", "too short", "a call that is not there", "a kind that is not there"],
)
def test_a_cell_that_refers_to_nothing_is_refused(tmp_path: Path, parts: bytes) -> None:
    reading = indexed(captured(tmp_path))
    with pytest.raises(ValueError, match="cells"):
        reading.on_batch(Batch(1, 3, 2, 0, has_ended=False, parts=parts))
    assert reading.findings.trouble
    assert not reading.interpreted_count
    assert not len(reading.calls)
    reading.close()


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessReading]:
    """A capture whose worker has also sent words and what the rules find."""
    made = read(record(tmp_path_factory.mktemp("worded") / "x.mcpcap", WORDED), with_rules=True)
    yield made
    made.close()


@given(st.integers(0, 2**32))
@examples(100)
def test_words_that_make_no_sense_are_refused_and_harm_nothing(worded: InProcessReading, seed: int) -> None:
    rng = random.Random(seed)
    reading = indexed(worded.path)
    with suppress(*NONSENSE):
        for message in worded.heard:
            told = message if batch_in(message) is not None or rng.random() < 0.7 else corrupted(message, rng)
            pass_message(reading, told)
    look_at(reading)
    for row in range(len(reading.index)):
        text_of(reading, row)
        exchange_lines(reading, row)
        row_lines(reading, row, 80)
    assert all(reading.forgotten)
    reading.close()


def test_a_worker_that_tells_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, waiting = indexed(captured(tmp_path)), Reading(tmp_path / "library/20261121T101502Z-4f2a.mcpcap")
    count = len(reading.index)
    last_seq = reading.index.entry(count - 1).seq
    monkeypatch.setattr(conversation_module, "MAX_NOTES_PER_SORT", 10)
    monkeypatch.setattr(columns_module, "MAX_COLUMN_WORDS", 10)
    monkeypatch.setattr(reading_module, "MAX_WAITING_BATCH_BYTES", 10 * reading_module.BATCH_OVERHEAD_BYTES)
    for number in range(10):
        reading.on_news({"note": ["cancelled", number, 1]})
        reading.on_batch(Batch(1, count, last_seq, 0, has_ended=False, parts=word(number)))
        waiting.on_batch(Batch(1, 5, 4, 0, has_ended=False))
    with pytest.raises(ValueError, match="more than"):
        reading.on_news({"note": ["cancelled", 10, 1]})
    with pytest.raises(ValueError, match="cells"):
        reading.on_batch(Batch(1, count, last_seq, 0, has_ended=False, parts=word(10)))
    with pytest.raises(ValueError, match="cells"):
        waiting.on_batch(Batch(1, 5, 4, 0, has_ended=False))
    waiting.close()
    reading.close()


def word(row: int) -> bytes:
    """An unusual message without a call."""
    return word_part(UNUSUAL_WORDS, [row << 43 | (1 << 21) - 1])


def corrupted(message: bytes, rng: random.Random) -> bytes:
    """A message of the worker that is sent as JSON, with a part of it replaced."""
    told = json.loads(message)
    inner, keys = told, [key for key in told if key != "n"]
    while True:
        key = rng.choice(keys)
        below = inner[key]
        keys = [*below] if isinstance(below, dict) else [*range(len(below))] if isinstance(below, list) else []
        if not keys or rng.random() < 0.2:
            inner[key] = rng.choice(ANYTHING)
            return as_json(told)
        inner = below


@pytest.mark.parametrize("wall_ns", [-(1 << 63), 1 << 63, (1 << 64) - 1])
def test_whatever_time_a_header_names_the_worker_is_believed(tmp_path: Path, wall_ns: int) -> None:
    middles = [("header", header(wall_ns=wall_ns)), *conversation(1)[1:], END]
    reading = read(record(tmp_path / "x.mcpcap", middles))
    assert reading.conversation.capture.wall_ns == wall_ns
    assert not reading.findings.trouble
    reading.close()


def test_cells_wait_for_their_rows(tmp_path: Path) -> None:
    made = read(captured(tmp_path))
    reading = Reading(made.path)
    for message in made.heard:
        pass_message(reading, message)
    assert (reading.interpreted_count, reading.has_ended) == (0, False)
    while reading.step():
        pass
    assert (reading.interpreted_count, reading.has_ended) == (made.interpreted_count, True)
    assert cells(reading.columns) == cells(made.columns)
    reading.close()
    made.close()
    with pytest.raises(ValueError, match="rows that are not shown"):
        batch_in(Batch(1, MAX_ROWS + 1, 0, 0, has_ended=False).message)


def test_cells_of_other_rows_are_refused(tmp_path: Path) -> None:
    """This happens when a ring deletes a file before both processes have read it."""
    reading = indexed(captured(tmp_path))
    count = len(reading.index)
    for rows, seq in ((count, count), (count + 1, count)):
        with pytest.raises(ValueError, match="cells"):
            reading.on_batch(Batch(1, rows, seq, 0, has_ended=True))
        assert "deleted while it was read" in reading.findings.trouble
    assert not reading.has_ended
    reading.close()


def test_places_are_sent_in_runs() -> None:
    assert list(runs([])) == []
    assert list(runs([1, 2, 3, 7, 9, 10])) == [(1, 4), (7, 8), (9, 11)]
    assert list(runs(range(2500))) == [(0, 1000), (1000, 2000), (2000, 2500)]


# ---- when the rules run


def message_kinds(reading: InProcessReading) -> str:
    """The messages of the worker, one word for each: cells, words, a finding, or the progress of the rules."""
    kinds = (b'"news"', "words "), (b'"found"', "finding "), (b"", "progress ")
    return "".join(
        "cells " if batch_in(message) is not None else next(word for sign, word in kinds if sign in message)
        for message in reading.heard
    )


def test_over_a_large_capture_the_rules_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "STEP", 1 << 10)
    path = record(tmp_path / "x.mcpcap", ODD)
    together = read(path, with_rules=True)
    assert "cells" in message_kinds(together).partition("finding")[2]
    monkeypatch.setattr(output_caches, "LARGE", 0)
    apart = InProcessReading(path, with_rules=True)
    while not apart.task.has_ended:
        # As in the worker, the rules run when there is nothing else to do.
        _ = apart.task.step(is_urgent=True) or apart.task.step(is_urgent=False)
    assert message_kinds(apart).count("finding") == len(list(findings(path)))
    assert "cells" not in message_kinds(apart).partition("finding")[2]
    while apart.step():
        pass
    assert apart.findings.kept_findings == together.findings.kept_findings == list(findings(path))
    assert (apart.findings.has_ended, apart.findings.tally) == (True, together.findings.tally)
    together.close()
    apart.close()


def test_rules_that_fall_behind_a_live_capture_go_on_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_LAG_S", -1.0)
    monkeypatch.setattr(worker, "STEP", 1 << 9)
    made, known = CaptureFile(tmp_path / "x.mcpcap"), lines(ODD)
    for line in known[:-8]:
        made.append(line)
    reading = InProcessReading(tmp_path / "x.mcpcap", with_rules=True)
    while len(reading.task._passes) == 1:
        assert reading.step()
    while reading.interpreted_count < len(known) - 8:
        reading.task.step(is_urgent=True)
        Reading.step(reading)
    assert reading.findings.checked_count < reading.interpreted_count, "the rules had no turn"
    for line in known[-8:]:
        made.append(line)
    made.close()
    while not (reading.has_ended and reading.task.has_ended):
        reading.step()
    assert reading.findings.kept_findings == list(findings(reading.path))
    assert reading.findings.has_ended
    assert sum(reading.findings.tally) == len(reading.findings.kept_findings)
    reading.close()
