"""Every road says the same of a call: Python, SQL, filters, the terminal UI, and OpenTelemetry."""

from pathlib import Path
from typing import NamedTuple

import pytest

import analysis
from analysis.conversation.call import ENDLESS, Call, Outcome
from analysis.conversation.message import Request
from analysis.filter import facts_of, parse
from analysis.reading import Reading
from analysis.selection import selected_at_the_end
from mcpproxy.exporters.otlp.capture import CaptureSpans
from mcpproxy.exporters.otlp.histograms import Histograms
from mcpproxy.tui.data import reading as screens
from tests.harness import ROOT

CAPTURES = [
    ROOT / f"tests/corpus/captures/{name}.mcpcap"
    for name in ("demo", "every-type", "gaps", "giant-frames", "good", "http", "killed", "odd-bytes")
]
Key = tuple[int, int | None]
_ERRORS = {Outcome.TOOL_ERROR: "tool_error", Outcome.UNANSWERED: "no_response"}


class Told(NamedTuple):
    """What a road says of a call."""

    method: str
    name: str | None
    outcome: str
    latency_ns: int | None


def key_of(call: Call) -> Key:
    return call.request.seq, call.request.index


def in_python(path: Path) -> dict[Key, Call]:
    return {key_of(call): call for call in analysis.calls(path)}


def told(call: Call) -> Told:
    return Told(call.request.method, call.name, str(call.outcome), call.latency_ns)


def in_sql(path: Path) -> dict[Key, Told]:
    with analysis.open(path) as database:
        rows = database.execute(
            "select request, item, method, name, outcome,"
            " case when ended_ns is not null then greatest(0, ended_ns - started_ns) end from exchanges"
        ).fetchall()
    return {(row[0], row[1]): Told(*row[2:]) for row in rows}


def on_screen(path: Path) -> dict[int, Told]:
    """By the number of the request's frame; requests of one batch share it."""
    reading = screens.Reading(path)
    while not reading.has_ended:
        reading.step()
    calls, found = reading.calls, {}
    for number in range(len(calls)):
        kind, outcome = reading.kinds.all[calls.kind[number]], reading.outcome(number)
        latency_ns = calls.latency_ns[number]
        seq = reading.index.entry(calls.request[number]).seq
        found[seq] = Told(kind.method, kind.name, str(outcome), None if latency_ns < 0 else latency_ns)
    reading.close()
    return found


def selected(path: Path, text: str) -> set[Key]:
    """The requests that a filter selects."""
    only = selected_at_the_end(parse(text), Reading(path))
    return {
        (seen.message.seq, seen.message.index)
        for step in Reading(path).to_end()
        for seen in step.messages
        if isinstance(seen.message, Request) and only.matches(facts_of(seen))
    }


def in_spans(path: Path) -> dict[int, tuple[int, str | None]]:
    """By the number of the request's frame, how long the call took and its kind of error."""
    reading = Reading(path)
    made = CaptureSpans("0" * 32, reading.fold, Histograms())
    return {
        int(str(span.attributes["mcpproxy.frame"])): (
            span.end_ns - span.start_ns,
            None if span.error is None else str(span.attributes["error.type"]),
        )
        for step in reading.to_end()
        for span in made.take(step)
        if span.is_server
    }


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_all_roads_say_the_same_of_every_call(path: Path) -> None:
    calls = in_python(path)
    known = {key: told(call) for key, call in calls.items()}
    assert known
    assert in_sql(path) == known
    alone = {seq: one for (seq, item), one in known.items() if item is None}
    screen = on_screen(path)
    assert {seq: screen[seq] for seq in alone} == alone
    failed = {
        key for key, call in calls.items() if call.is_failure or call.outcome in (Outcome.ERROR, Outcome.TOOL_ERROR)
    }
    answered = {key for key, call in calls.items() if call.response is not None}
    assert selected(path, "has:answer") == answered
    assert selected(path, "has:failure") == {key for key in failed if key not in answered}
    spans = in_spans(path)
    for (seq, item), call in calls.items():
        if item is not None:
            continue
        took_ns, error = spans[seq]
        if call.response is not None and call.cancellation is None:
            assert took_ns == call.latency_ns
        if call.outcome in _ERRORS and call.request.method not in ENDLESS:
            assert error == _ERRORS[call.outcome]
        elif call.outcome is Outcome.RESULT and call.cancellation is None:
            assert error is None
