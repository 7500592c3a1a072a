"""The columns of the screens say the same about each call as Python and SQL, for any contents of a capture.

Four ways are compared: a file read to its end, the same results from the cache, the same file read while it grows, and
its rows in SQL.
"""

import os
import warnings
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.conversation.call import Call
from analysis.summary import summarise
from captures.errors import CaptureError
from captures.file import create
from captures.listing import segments
from captures.reader import Capture
from mcpproxy.tui.data import output_caches, worker
from mcpproxy.tui.data.columns import NONE
from tests.analysis.store.hostile_losses import lossy
from tests.analysis.traces import corpus
from tests.examples import examples
from tests.harness import ROOT
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.test_columns import cells

KEPT = ROOT / "tests/corpus/captures"


class CallFacts(NamedTuple):
    """What is known about a call."""

    request: int
    """The number of its frame; the requests of a batch share it."""
    asked_by: str
    method: str
    name: str | None
    outcome: str
    state: str
    latency_ns: int | None
    response: int | None
    abandoned_ns: int | None
    """How long it had waited, if it was abandoned and no response came."""


Calls = Counter[CallFacts]


def state_of(outcome: str, *, is_cancelled: bool) -> str:
    """The state of a call, as the view `calls` defines it."""
    if outcome in ("failed", "unanswered", "not_recorded"):
        return outcome
    if is_cancelled or outcome == "cancelled":
        return "cancelled"
    return "interim" if outcome in ("input_required", "task") else "answered"


def whole(text: str) -> str:
    """A text as a column can hold it: lone surrogates have no encoding."""
    return text[:256].encode("utf-8", "replace").decode()


def in_python(path: Path) -> Calls:
    return Counter(map(call_facts, analysis.calls(path)))


def call_facts(call: Call) -> CallFacts:
    request, response = call.request, call.response
    return CallFacts(
        request.seq,
        request.sender,
        whole(request.method),
        None if call.name is None else whole(call.name),
        str(call.outcome),
        state_of(str(call.outcome), is_cancelled=call.cancelled_ns is not None),
        call.latency_ns,
        None if response is None else response.seq,
        call.abandoned_ns if response is None else None,
    )


def on_screen(reading: Reading) -> Calls:
    """The calls in the columns of a capture, after it is read to its end."""
    while not reading.has_ended:
        reading.step()
    columns, index = reading.calls, reading.index
    calls = Calls()
    for number in range(len(columns)):
        kind, outcome, response = (
            reading.kinds.all[columns.kind[number]],
            reading.outcome(number),
            columns.response[number],
        )
        latency_ns = columns.latency_ns[number]
        one = CallFacts(
            index.entry(columns.request[number]).seq,
            kind.side,
            whole(kind.method),
            None if kind.name is None else whole(kind.name),
            str(outcome),
            state_of(str(outcome), is_cancelled=bool(columns.is_cancelled[number])),
            None if latency_ns < 0 else latency_ns,
            None if response == NONE else index.entry(response).seq,
            reading.abandoned_ns(number) if response == NONE else None,
        )
        calls[one] += 1
    reading.close()
    return calls


def known(reading: Reading) -> list[object]:
    """Everything that is known about a capture: what the worker has reported, and its rows."""
    conversation = {
        name: value for name, value in vars(reading.conversation).items() if name not in ("_index", "_http")
    }
    index, columns = reading.index, [bytes(column) for column in (*reading.index._columns, *reading._columns)]
    rows = [
        index._segments,
        index._parts,
        index._unfinished_entries,
        index.frame_count,
        index.left_out_count,
        index.tail.segments,
    ]
    end = [reading.end, reading.bad_end, reading.http.has_any, reading.progress, len(reading.folded_rows)]
    return [cells(reading.columns), conversation, reading.kinds.all, reading.forgotten, columns, rows, end]


def grown(path: Path, folder: Path, rng: Random) -> Calls:
    """The calls in the columns of the same file, read while a recorder writes it line by line."""
    folder.mkdir()
    reading: Reading | None = None
    held: int | None = None
    for file in segments(path):
        fd = create(str(folder / file.name))
        if held is not None:
            os.close(held)  # a recorder holds a segment until the next one exists
        held = fd
        for line in file.read_bytes().splitlines(keepends=True):
            os.write(fd, line)
            if reading is None:
                with suppress(CaptureError):  # it has no record yet
                    reading = Reading(folder / file.name)
            for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
                if reading is not None:
                    reading.step()
    assert reading is not None
    assert held is not None
    os.close(held)
    return on_screen(reading)


def in_sql(paths: Iterable[Path], cached: Path) -> tuple[dict[str, Calls], Counter[str]]:
    """The calls in the tables and the view `calls`, and the number of errors in the view, by path of the capture."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some captures of the corpus are the same one in several states
        patch.setenv("XDG_CACHE_HOME", str(cached))
        with analysis.open([*paths]) as database:
            rows = database.execute(
                """
                select
                    path, request, asked_by, left(method, 256), exchanges.name, outcome,
                    case when exchanges.ended_ns is not null then greatest(0, exchanges.ended_ns - started_ns) end,
                    response,
                    case when is_abandoned and response is null then greatest(0, cancelled_ns - started_ns) end,
                    cancelled_ns is not null
                from exchanges join captures using (capture)
                """
            ).fetchall()
            states = Counter(
                database.execute("select path, request, state from calls join captures using (capture)").fetchall()
            )
            errors = Counter(
                dict(
                    database.execute(
                        "select path, count(*) filter (is_error) from calls join captures using (capture) group by all"
                    ).fetchall()
                )
            )
    found: dict[str, Calls] = {}
    for capture, request, asked_by, method, name, outcome, latency_ns, response, abandoned_ns, is_cancelled in rows:
        state = state_of(outcome, is_cancelled=is_cancelled)
        states[capture, request, state] -= 1
        one = CallFacts(request, asked_by, method, name, outcome, state, latency_ns, response, abandoned_ns)
        found.setdefault(capture, Calls())[one] += 1
    assert not +states
    return found, errors


def same(path: Path, place: Path, seed: int) -> Calls:
    """The calls of a capture, after all ways except SQL were compared."""
    calls = in_python(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_caches, "LARGE", 0)
        first = Reading(path)
        assert on_screen(first) == calls
        again = Reading(path)
        assert isinstance(again.task._passes[0], worker.CachedPass)
        assert again._restore()
        assert on_screen(again) == calls
    assert known(again) == known(first)
    assert grown(path, place / f"grown-{path.stem}", Random(seed)) == calls
    return calls


def as_loaded(known: dict[Path, Calls], place: Path) -> None:
    """Compare calls with the rows in SQL."""
    found, errors = in_sql(known, place)
    for path, calls in known.items():
        assert found.get(str(path), Calls()) == calls, path
        assert summarise(path).errors == errors[str(path)], path


# ---- captures made at random


@given(st.integers(0, 2**32))
@examples(40)
def test_columns_are_those_of_the_fold_at_once_and_while_a_file_grows(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    place = tmp_path_factory.mktemp("any")
    same(lossy(seed).write(place / "x.mcpcap"), place, seed)


def check_rows(seeds: Iterable[int], place: Path) -> None:
    """Compare captures with their rows in SQL, all in one database."""
    place.mkdir()
    known = {}
    for seed in seeds:
        path = lossy(seed, seed).write(place / f"{seed}.mcpcap")
        known[path] = same(path, place, seed)
    as_loaded(known, place / "cache")


@pytest.mark.costly("thirty captures are read three times and loaded")
def test_columns_are_the_rows_in_sql(tmp_path: Path) -> None:
    check_rows(range(30), tmp_path / "made")


@pytest.mark.soak
def test_columns_are_the_rows_of_very_many_captures(tmp_path: Path) -> None:
    for first in range(0, 10_000, 100):
        check_rows(range(first, first + 100), tmp_path / f"made-{first}")


# ---- the corpus


def check_corpus(each: int, place: Path) -> None:
    """Compare every `each`th conversation of the corpus, and all captures."""
    paths = []
    for number, (_, case) in list(enumerate(corpus()))[::each]:
        paths.append(place / f"{number}.mcpcap")
        paths[-1].write_bytes(b"".join(line for _, line in case.records()))
    for path in sorted(KEPT.glob("*.mcpcap")):
        with suppress(CaptureError):  # not a capture: nothing to compare
            if Capture(path).segments[0] == path:
                paths.append(path)
    as_loaded({path: same(path, place, number) for number, path in enumerate(paths)}, place / "cache")


@pytest.mark.costly("some conversations and all captures of the corpus are read three times, and loaded")
def test_columns_are_the_rows_of_the_corpus(tmp_path: Path) -> None:
    check_corpus(300, tmp_path)


@pytest.mark.soak
def test_columns_are_the_rows_of_the_whole_corpus(tmp_path: Path) -> None:
    check_corpus(1, tmp_path)
