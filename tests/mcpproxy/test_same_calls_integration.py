"""Every way of reading says the same about a call.

These are Python, SQL, filters, `show`, Markdown, the report, the terminal UI, and OpenTelemetry.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import analysis
from analysis.conversation.call import Call, Outcome
from analysis.conversation.message import Request
from analysis.filter import facts_of, parse
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.reading import Reading
from analysis.selection import filter_with_outcomes
from analysis.summary import summarise
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.result import LocatedFinding, Totals
from mcpproxy.exporters.otlp.capture import SpanBuilder
from mcpproxy.exporters.otlp.histograms import DurationHistograms
from mcpproxy.exporters.trace_events import ProcessNumbers, TraceEventBuilder
from mcpproxy.tui.details.detail import exchange_lines
from mcpproxy.tui.rows.row_text import text_of
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.wording.cells import UNLIMITED_WIDTH
from mcpproxy.wording.facts import Fact, outcome_facts
from mcpproxy.wording.units import duration
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.talk import META
from tests.captures.samples import header
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.html_report.parts import Parts
from tests.mcpproxy.tui.http_talk import post, two_revisions
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import CALL, END, FINE, INITIALIZE, INITIALIZED, record

CORPUS = ("demo", "every-type", "gaps", "giant-frames", "good", "http", "killed", "odd-bytes")
NAMES = (*CORPUS, "outcomes", "failed", "left", "refused")
Key = tuple[int, int | None]
_ERRORS = {Outcome.TOOL_ERROR: "tool_error", Outcome.UNANSWERED: "no_response"}
LISTED = 20
"""For each outcome, the end of a text lists this many requests without a response."""


class CallFacts(NamedTuple):
    """What one way of reading reports about a call."""

    method: str
    name: str | None
    outcome: str
    latency_ns: int | None


class CallWording(NamedTuple):
    """What users read about a call."""

    subject: str
    """Its method and its name."""
    word: str
    """Its outcome."""
    latency: str
    error: str
    """The text of an error."""


class CaptureCalls(NamedTuple):
    """A capture, and its calls as Python reports them."""

    path: Path
    calls: dict["Key", Call]

    @property
    def alone(self) -> dict[int, Call]:
        """The calls that are not in a batch, by frame number."""
        return {seq: call for (seq, item), call in self.calls.items() if item is None}


def outcomes(path: Path) -> Path:
    """A session on stdio with calls of many outcomes."""
    talk = CaptureWriter(path, "outcomes")
    talk.handshake()
    talk.call(20, 1, "fine")
    talk.answer(21.5, 1, content=[{"type": "text", "text": "done"}])
    talk.call(30, 2, "wrong")
    talk.fail(42.25, 2, "no such file")
    talk.ask(50, 3, "resources/read", uri="note://gone")
    talk.refuse(1970.4, 3, -32002, "not found")
    talk.call(2000, 4, "left")
    talk.say(2100, "c2s", method="notifications/cancelled", params={"requestId": 4, "reason": "the user left"})
    talk.call(2200, 5, "slow")
    talk.say(9200, "c2s", method="notifications/cancelled", params={"requestId": 5, "reason": "it timed out"})
    talk.call(9300, 6, "late")
    talk.say(9400, "c2s", method="notifications/cancelled", params={"requestId": 6, "reason": "timed out"})
    talk.answer(9900, 6, content=[])
    talk.call(10_000, 7, "silent")
    talk.ask(10_100, 8, "subscriptions/listen")
    return talk.close(10_200)


def failed(path: Path) -> Path:
    """A session over HTTP with a call whose exchange ends without a response."""
    made = [("header", header(transport="http", name="library")), *post(1, INITIALIZE, INITIALIZED)]
    made += [*post(2, CALL % (2, 2), FINE % (2, 2), stream=True), *post(3, CALL % (3, 3)), END]
    return record(path, made)


def left(path: Path) -> Path:
    """A session over HTTP whose client cancels calls by closing their exchanges, some sooner and some later."""
    talk = CaptureWriter(path, "left", transport="http")
    head = {"method": "POST", "target": "/mcp", "headers": [["MCP-Protocol-Version", "2026-07-28"]]}
    for number, until_ms in enumerate((700, 9000), 1):
        at_ms = number * 10_000
        talk.record(at_ms, "exchange", conn=1, exchange=number, stage="request", request=head)
        params = {"name": "dig", "_meta": META}
        raw = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        place = {"conn": 1, "exchange": number, "unit": "http_body"}
        talk.record(at_ms + 1, "frame", dir="c2s", **place, kind="request", size=len(raw), raw=raw)
        talk.record(at_ms + until_ms, "exchange", conn=1, exchange=number, stage="end", request=head, ended_by="client")
    return talk.close()


def refused(path: Path) -> Path:
    """A session over HTTP with a call that is refused, one that mcpproxy could not deliver, and one cancelled first."""
    talk = CaptureWriter(path, "refused", transport="http")
    head = {"method": "POST", "target": "/mcp", "headers": [["Mcp-Session-Id", "a"]]}
    answers = ({"status": 404, "headers": []}, {"status": 502, "by": "proxy"}, {"status": 504, "headers": []})
    for number, answer in enumerate(answers, 1):
        at_ms = number * 1000
        talk.record(at_ms, "exchange", conn=1, exchange=number, stage="request", request=head)
        raw = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "dig"}})
        place = {"conn": 1, "exchange": number, "unit": "http_body", "dir": "c2s"}
        talk.record(at_ms + 1, "frame", **place, kind="request", size=len(raw), raw=raw)
        if number == 3:
            _cancel(talk, at_ms + 200, number, head)
        times = {"response_end": round((at_ms + 400) * 1e6)}
        by = "proxy" if answer.get("by") else "complete"
        end = {"request": head, "response": answer, "times": times, "ended_by": by}
        talk.record(at_ms + 403, "exchange", conn=1, exchange=number, stage="end", **end)
    return talk.close()


def _cancel(talk: CaptureWriter, at_ms: float, number: int, head: dict[str, Any]) -> None:
    """The client cancels a call with another POST."""
    exchange = {"conn": 1, "exchange": 100 + number}
    talk.record(at_ms, "exchange", **exchange, stage="request", request=head)
    raw = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    frame = {"unit": "http_body", "dir": "c2s", "kind": "notification", "size": len(raw), "raw": raw}
    talk.record(at_ms, "frame", **exchange, **frame)
    answer = {"status": 202, "headers": []}
    talk.record(at_ms, "exchange", **exchange, stage="end", request=head, response=answer, ended_by="complete")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaptureCalls]:
    """All captures, each read once."""
    folder = tmp_path_factory.mktemp("captures")
    made = {"outcomes": outcomes(folder / "outcomes.mcpcap"), "failed": failed(folder / "failed.mcpcap")}
    made["left"] = left(folder / "left.mcpcap")
    made["refused"] = refused(folder / "refused.mcpcap")
    paths = {name: made.get(name, ROOT / f"tests/corpus/captures/{name}.mcpcap") for name in NAMES}
    return {name: CaptureCalls(path, in_python(path)) for name, path in paths.items()}


@pytest.fixture(params=NAMES)
def roads(request: pytest.FixtureRequest, known: dict[str, CaptureCalls]) -> CaptureCalls:
    return known[request.param]


def key_of(call: Call) -> Key:
    return call.request.seq, call.request.index


def in_python(path: Path) -> dict[Key, Call]:
    return {key_of(call): call for call in analysis.calls(path)}


def told(call: Call) -> CallFacts:
    return CallFacts(call.request.method, call.name, str(call.outcome), call.latency_ns)


class InSql(NamedTuple):
    """What tables and views report about the calls of a capture."""

    told: dict[Key, CallFacts]
    errors: dict[Key, str]
    """The text of each error; empty if there is none."""
    states: Counter[tuple[int, str]]
    """The states of the requests of a frame."""
    lengths: Counter[tuple[int, int]]
    """How long the requests of a frame lasted, in nanoseconds."""
    late: dict[int, float | None]
    """How late a response was, in milliseconds, by the frame number of the request."""


def in_sql(path: Path) -> InSql:
    with analysis.open(path) as database:
        rows = database.execute(
            "select request, item, method, name, outcome,"
            " case when ended_ns is not null then greatest(0, ended_ns - started_ns) end, coalesce(error, '')"
            " from exchanges"
        ).fetchall()
        states = database.execute(
            "select request, case when is_abandoned then 'abandoned' else state end from calls"
        ).fetchall()
        lengths = database.execute("select request, until_ns - started_ns from calls").fetchall()
        late = database.execute("select request, late_ms from slowest").fetchall()
    return InSql(
        {(row[0], row[1]): CallFacts(*row[2:6]) for row in rows},
        {(row[0], row[1]): row[6] for row in rows},
        Counter(states),
        Counter(lengths),
        dict(late),
    )


def on_screen(path: Path) -> dict[int, tuple[CallFacts, int | None]]:
    """Returns what the terminal UI reports, by the frame number of the request, which the calls of a batch share.

    With it comes how long the call waited until it was abandoned.
    """
    reading = InProcessReading(path)
    while not reading.has_ended:
        reading.step()
    calls, found = reading.calls, {}
    for number in range(len(calls)):
        kind, outcome = reading.kinds.all[calls.kind[number]], reading.outcome(number)
        latency_ns = calls.latency_ns[number]
        seq = reading.index.entry(calls.request[number]).seq
        told = CallFacts(kind.method, kind.name, str(outcome), None if latency_ns < 0 else latency_ns)
        found[seq] = told, reading.abandoned_ns(number)
    reading.close()
    return found


def rows_on_screen(path: Path) -> dict[int, tuple[str, str]]:
    """Returns the texts in each row of the terminal UI, by frame number: the status (or the content), and the cell."""
    reading, found = InProcessReading(path), {}
    while not reading.has_ended:
        reading.step()
    rows = TrafficRows(reading, lambda: None)
    for place, row in enumerate(rows.view):
        text = text_of(reading, row)
        rows._texts[row] = text
        cell = "".join(span.text for span in rows.line(place).cells.get("status", ()))
        entry = reading.index.entry(row)
        if entry.dir:
            found[entry.seq] = text.details if text.status is None else text.status.word, cell
    rows.close()
    reading.close()
    return found


def selected(path: Path, text: str) -> set[Key]:
    """Returns the requests that a filter selects."""
    only = filter_with_outcomes(parse(text), Reading(path))
    return {
        (context.message.seq, context.message.index)
        for step in Reading(path).to_end()
        for context in step.messages
        if isinstance(context.message, Request) and only.matches(facts_of(context))
    }


class InSpan(NamedTuple):
    """What an OpenTelemetry span reports about a call."""

    lasted_ns: int
    error: str | None
    """The kind of error."""
    late_ms: object


def in_spans(path: Path) -> dict[int, InSpan]:
    """Returns what the span of the receiving side reports, by the frame number of the request."""
    reading = Reading(path)
    made = SpanBuilder("0" * 32, reading.fold, DurationHistograms())
    return {
        int(str(span.attributes["mcpproxy.frame"])): InSpan(
            span.end_ns - span.start_ns,
            None if span.error is None else str(span.attributes["error.type"]),
            span.attributes.get("mcpproxy.response.late_ms"),
        )
        for step in reading.to_end()
        for span in made.on_step(step)
        if span.is_server
    }


def in_perfetto(path: Path) -> dict[int, tuple[dict[str, Any], float]]:
    """Returns the arguments of the slice and its length in microseconds, by the frame number of the request."""
    reading = Reading(path)
    made = TraceEventBuilder("0" * 32, reading.fold, "x", ProcessNumbers(), 0, 0)
    events = [event for step in reading.to_end() for event in made.on_step(step)]
    ends = {event["id"]: event["ts"] for event in events if event["ph"] == "e"}
    return {
        event["args"]["frame"]: (event["args"], ends[event["id"]] - event["ts"])
        for event in events
        if event["ph"] == "b"
    }


# ---- what users read

LINE = re.compile(r" *\+[\d.,]+ +(\d+) +(?:@\d+ )?[→←]([!✗ ]) +(.*)")
"""A message in a text: its frame, whether it breaks a rule, and the rest of the line."""
TAIL = re.compile(r"  +(?:([\d.,]+ ms) +)?[\d.,]+ k?M?B(?:  (.+))?$")
"""The latency, if the line has one, and the size; an error that is too long for its column follows them."""
WORDS = {
    Outcome.RESULT: "ok",
    Outcome.TOOL_ERROR: "tool error",
    Outcome.ERROR: "error",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "failed",
    Outcome.UNANSWERED: "unanswered",
    Outcome.NOT_RECORDED: "not recorded",
}
STATES = {
    **dict.fromkeys((Outcome.RESULT, Outcome.TOOL_ERROR, Outcome.ERROR), "answered"),
    **{outcome: str(outcome) for outcome in (Outcome.FAILED, Outcome.UNANSWERED, Outcome.NOT_RECORDED)},
    Outcome.CANCELLED: "cancelled",
}


def word_of(call: Call) -> str:
    """Returns the word that users should read for the outcome."""
    is_abandoned = call.outcome is Outcome.CANCELLED and call.abandoned_ns is not None
    return "abandoned" if is_abandoned else WORDS[call.outcome]


def state_of(call: Call) -> str:
    """Returns the state of the call in the list of calls."""
    if call.abandoned_ns is not None:
        return "abandoned"
    has_failed = STATES[call.outcome] not in ("answered", "cancelled")
    return STATES[call.outcome] if has_failed or call.cancelled_ns is None else "cancelled"


def error_of(call: Call) -> str:
    """Returns the text of the call's error."""
    if call.response is None or call.outcome not in (Outcome.ERROR, Outcome.TOOL_ERROR):
        return ""
    body: Any = call.response.body
    return str(body["error"]["message"] if call.outcome is Outcome.ERROR else body["result"]["content"][0]["text"])


def is_rounded(text: str, ns: int | None) -> bool:
    """Returns whether a text in milliseconds is this time, rounded."""
    if ns is None:
        return text == ""
    digits = text.removesuffix(" ms").replace(",", "")
    half = 0.5 * 10 ** -len(digits.partition(".")[2])
    return text.endswith(" ms") and abs(float(digits) - ns / 1e6) <= half * 1.001


def read_lines(lines: Iterable[str]) -> tuple[dict[int, list[CallWording]], Counter[str]]:
    """Returns the messages of a text by frame number, and how many calls of each outcome the text counts."""
    found: dict[int, list[CallWording]] = {}
    counted = Counter[str]()
    for line in lines:
        head = re.fullmatch(r" *\+[\d.,]+ +· +(\d+) requests? (?:seem )?([a-z ]+?)( \(\d+ answered late\)|:.*)?", line)
        if head:
            counted[head[2].replace("without a recorded response", "not recorded")] += int(head[1])
        message = LINE.fullmatch(line)
        if message is None or message[2] == "✗":
            continue
        tail = TAIL.search(message[3])
        subject, word, *texts = [*re.split("  +", message[3][: tail.start() if tail else None]), ""]
        latency, late_text = (tail[1] or "", tail[2] or "") if tail else ("", "")
        texts.append(late_text)
        found.setdefault(int(message[1]), []).append(CallWording(subject, word, latency, "  ".join(texts).strip()))
    return found, counted


def printed(path: Path) -> list[str]:
    return mcpproxy("show", path, COLUMNS=str(UNLIMITED_WIDTH)).stdout.decode().splitlines()


def in_markdown(path: Path) -> list[str]:
    text = mcpproxy("show", "--format", "markdown", path).stdout.decode()
    found = re.findall(r"<details><summary><code>(.*)</code></summary>|<div><code>(.*)</code></div>", text)
    return [unescape(folded or other) for folded, other in found]


@pytest.mark.costly("the first case loads the program, from which commands are forked")
@pytest.mark.parametrize("text_of", [printed, in_markdown], ids=["show", "Markdown"])
def test_a_text_says_of_each_call_what_became_of_it(roads: CaptureCalls, text_of: Callable[[Path], list[str]]) -> None:
    found, counted = read_lines(text_of(roads.path))
    left = Counter[str]()
    for seq, call in roads.alone.items():
        asked, *ended = found[seq]
        assert is_about(asked.subject, call)
        if call.response is not None:
            assert not ended
            if call.response.index is not None:
                continue
            (told,) = found[call.response.seq]
            assert is_about(told.subject, call)
            assert re.split(r" -?\d|,", told.word)[0] == word_of(call)
            assert ("late" in told.word) == (call.late_ns is not None)
            assert is_rounded(told.latency, call.latency_ns), (told, call.latency_ns)
            assert told.error.startswith(error_of(call))
            assert told.word.startswith("error ") == (call.outcome is Outcome.ERROR)
        elif call.request.method not in ENDLESS_METHODS and call.is_closed_by_client:
            # It is at the end of the exchange, because no message reports it.
            (told,) = ended
            assert is_about(told.subject, call)
            assert told.word.startswith(word_of(call))
        elif call.request.method not in ENDLESS_METHODS and word_of(call) != "cancelled":
            left[word_of(call)] += 1
            if left[word_of(call)] <= LISTED:
                (told,) = ended
                assert is_about(told.subject, call)
                assert told.word.startswith(word_of(call))
                assert told.latency == ""
        else:
            assert not ended
    # All of them are counted, with or without a response, regardless of where their line is.
    left["abandoned"] = abandoned_in(roads)
    batched = sum(1 for (_, item), call in roads.calls.items() if item is not None and call.response is None)
    assert counted >= left
    assert counted.total() <= left.total() + batched


def abandoned_in(roads: CaptureCalls) -> int:
    return sum(call.abandoned_ns is not None for call in roads.calls.values())


def test_every_road_counts_abandoned_calls_alike(roads: CaptureCalls) -> None:
    count = abandoned_in(roads)
    late = sum(call.abandoned_ns is not None and call.late_ns is not None for call in roads.calls.values())
    _, counted = read_lines(printed(roads.path))
    assert counted["abandoned"] == count
    summary = summarise(roads.path)
    assert (summary.abandoned, summary.answered_late) == (count, late)
    totals = Totals()
    for event in examine_capture(roads.path, CheckOptions()):
        if isinstance(event, LocatedFinding):
            totals.count_finding(event)
    assert totals.abandoned == count
    ((in_stats,), *_) = (row.split()[1:2] for row in stats(roads.path) if row.startswith("ABANDONED"))
    assert in_stats == f"{count}"
    assert ("answered late" in "".join(row for row in printed(roads.path) if "abandoned" in row)) == (late > 0)


def stats(path: Path) -> list[str]:
    return mcpproxy("stats", path).stdout.decode().splitlines()


def test_the_rows_of_the_terminal_ui_say_what_show_says(roads: CaptureCalls) -> None:
    shown, _ = read_lines(printed(roads.path))
    screen = rows_on_screen(roads.path)
    for seq, call in roads.alone.items():
        if call.response is not None:
            if call.response.index is None:
                told, cell = screen[call.response.seq]
                # The row of a giant response does not have its error code.
                assert shown[call.response.seq][0].word.startswith(told)
                assert ("late" in told) == ("late" in cell) == (call.late_ns is not None)
                assert cell.startswith(word_of(call))
        elif call.request.method in ENDLESS_METHODS:
            assert screen[seq][1] in ("", "cancelled")
        else:
            assert screen[seq][1] == word_of(call)
            listed = shown[seq][1:]
            assert all(one.word.startswith(screen[seq][1]) for one in listed)
    for seq, (first, *_) in shown.items():
        if first.subject == "notifications/cancelled" and seq in screen:
            assert screen[seq][0].split() == f"{first.word} {first.error}".split()


def details_on_screen(path: Path, calls: Iterable[int]) -> dict[int, dict[str, str]]:
    """Returns, by the frame number of the request, the facts next to the detail of its row, each by its name."""
    reading, found = InProcessReading(path), {}
    while not reading.has_ended:
        reading.step()
    for seq in calls:
        row = reading.index.entry_of_seq(seq)
        assert row is not None
        lines = exchange_lines(reading, row)[1:]
        found[seq] = {line[0].text.strip(): "".join(span.text for span in line[1:]) for line in lines}
    reading.close()
    return found


def test_the_details_of_the_terminal_ui_say_what_show_says_of_one_message(roads: CaptureCalls) -> None:
    screen = details_on_screen(roads.path, roads.alone)
    for seq, call in roads.alone.items():
        facts, told = {fact.name: fact.text for fact in outcome_facts(call)}, screen[seq]
        if call.response is None:
            assert told.get("outcome") == facts.get("outcome")
        elif call.response.index is None:
            # The error code of a giant response is not read.
            assert facts["answered"].partition(": ")[2].startswith(told["outcome"])
        assert told.get("cancelled") == facts.get("cancelled")


def is_about(subject: str, call: Call) -> bool:
    """Returns whether the beginning of a line names a call."""
    return subject.startswith(call.request.method) and subject.endswith(call.name or "")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, known: dict[str, CaptureCalls]) -> Parts:
    """A report on all captures."""
    target = tmp_path_factory.mktemp("report") / "report.html"
    mcpproxy("report", "-o", target, *(roads.path for roads in known.values()))
    return Parts(target.read_text("utf-8"))


def columns(block: dict[str, list[Any]], capture: int) -> list[dict[str, Any]]:
    """Returns the rows of a capture in a block of columns."""
    rows = [dict(zip(block, values, strict=True)) for values in zip(*block.values(), strict=True)]
    return [row for row in rows if row["capture"] == capture]


def place_in(report: Parts, path: Path) -> int:
    """Returns the index of a capture in the report."""
    return [str(one["file"]) for one in report.block("data-overview")["captures"]].index(path.name)


def test_the_report_says_of_each_call_what_became_of_it(roads: CaptureCalls, report: Parts) -> None:
    capture = place_in(report, roads.path)
    rows = columns(report.block("data-traffic")["rows"], capture)
    asked = {row["seq"]: row for row in rows if row["kind"] == "request"}
    responses = {row["seq"]: row for row in rows if row["kind"] == "response"}
    listed = {row["request"]: row for row in columns(report.block("data-calls"), capture)}
    told = {seq: responses[row["response"]] for seq, row in listed.items() if row["response"] in responses}
    assert {seq for seq, _ in roads.calls} == {*listed} == {*asked}
    for seq, call in roads.alone.items():
        assert (asked[seq]["method"], call.name or asked[seq]["name"]) == (call.request.method, asked[seq]["name"])
        if call.response is not None or call.request.method not in ENDLESS_METHODS:
            facts = [*map(Fact._make, asked[seq]["facts"])]
            assert [fact for fact in facts if fact.name != "extension"] == [*outcome_facts(call)]
        state = listed[seq]
        assert (state["method"], state["name"], state["state"]) == (
            call.request.method,
            call.name or "",
            state_of(call),
        )
        assert state["bad"] == (
            state_of(call) == "failed" or (state_of(call) == "answered" and call.outcome is not Outcome.RESULT)
        )
        if call.response is None:
            assert seq not in told
            assert state["response"] == -1
            if call.request.method not in ENDLESS_METHODS:
                assert asked[seq]["word"].startswith(word_of(call))
            continue
        row = told[seq]
        assert state["response"] == row["seq"] == call.response.seq
        assert (row["method"], row["took_ns"]) == (call.request.method, call.latency_ns)
        assert re.split(r" -?\d|,", row["word"])[0] == word_of(call)
        assert row["is_bad"] == (call.outcome in (Outcome.ERROR, Outcome.TOOL_ERROR))
        assert row["text"].startswith(error_of(call))
        assert asked[seq]["word"] == ""
    slowest = [row for row in report.block("data-overview")["slowest"] if row["capture"] == capture]
    for row in slowest:
        call = roads.alone[row["frame"]]
        late = "" if call.late_ns is None else f", {duration(call.late_ns)} late"
        assert row["outcome"] == word_of(call) + late


# ---- the other ways of reading


def test_all_roads_say_the_same_of_every_call(roads: CaptureCalls) -> None:
    path, calls = roads
    known = {key: told(call) for key, call in calls.items()}
    assert known
    tables = in_sql(path)
    assert tables.told == known
    assert tables.errors == {key: error_of(call) for key, call in calls.items()}
    assert tables.states == Counter((seq, state_of(call)) for (seq, _), call in calls.items())
    screen = on_screen(path)
    for seq, call in roads.alone.items():
        assert screen[seq] == (told(call), call.abandoned_ns)
    failed = {
        key for key, call in calls.items() if call.is_failure or call.outcome in (Outcome.ERROR, Outcome.TOOL_ERROR)
    }
    answered = {key for key, call in calls.items() if call.response is not None}
    assert selected(path, "has:answer") == answered
    # An error matches its response, but a call that is abandoned or fails matches its request.
    assert selected(path, "has:failure") == {key for key in failed if key not in answered or calls[key].is_failure}
    assert selected(path, "has:error") == {key for key, call in calls.items() if call.outcome is Outcome.FAILED}
    drawn = in_perfetto(path)
    for seq, call in roads.alone.items():
        arguments, _ = drawn[seq]
        response = None if call.response is None else call.response.seq
        assert (arguments["outcome"], arguments["response"]) == (str(call.outcome), response)
    spans = in_spans(path)
    for (seq, item), call in calls.items():
        if item is not None:
            continue
        error = spans[seq].error
        if call.late_ns is not None:
            assert error == ("cancelled" if call.abandoned_ns is None else "timeout")
        elif call.outcome in _ERRORS and call.request.method not in ENDLESS_METHODS:
            assert error == _ERRORS[call.outcome]
        elif call.outcome is Outcome.RESULT:
            assert error is None


def test_all_roads_say_how_long_every_call_lasted_and_whether_that_was_its_cancellation(
    roads: CaptureCalls, report: Parts
) -> None:
    path = roads.path
    tables, drawn, spans = in_sql(path), in_perfetto(path), in_spans(path)
    bars = {row["request"]: row for row in columns(report.block("data-calls"), place_in(report, path))}
    for seq, call in roads.alone.items():
        arguments, drawn_us = drawn[seq]
        lasted_ns = call.lasted_ns
        if lasted_ns is not None:
            assert tables.lengths[seq, lasted_ns] == 1, (call.outcome, lasted_ns)
            assert drawn_us == pytest.approx(lasted_ns / 1e3, abs=0.001)
            assert spans[seq].lasted_ns == lasted_ns
            assert bars[seq]["to"] - bars[seq]["from"] == pytest.approx(lasted_ns / 1e3, abs=1)
        late_ms = None if call.late_ns is None else call.late_ns / 1e6
        word = None if call.cancelled_ns is None else "cancelled" if call.abandoned_ns is None else "abandoned"
        assert (arguments.get("cancelled"), arguments.get("late_ms")) == (word, late_ms)
        assert spans[seq].late_ms == late_ms
        assert tables.late.get(seq) == (None if late_ms is None else pytest.approx(late_ms, abs=0.001))
        assert bars[seq]["late"] == ("" if call.late_ns is None else f"{duration(call.late_ns)} late")


def test_a_call_lasts_until_the_first_of_response_cancellation_and_failure(known: dict[str, CaptureCalls]) -> None:
    def lengths(name: str) -> list[float | None]:
        alone = [call for _, call in sorted(known[name].alone.items())]
        return [None if call.lasted_ns is None else call.lasted_ns / 1e6 for call in alone]

    assert lengths("outcomes")[1:] == [1.5, 12.25, 1920.4, 100, 7000, 100, None, None]
    assert lengths("left") == [699, 8999]
    assert lengths("refused") == [402, 402, 199]


def test_every_road_names_the_revisions_of_all_sessions_in_order(tmp_path: Path) -> None:
    path, both = two_revisions(tmp_path), ("2025-06-18", "2025-11-25")
    reading = analysis.read(path)
    assert [*reading.to_end()]
    assert reading.capture.revisions == summarise(path).revisions == both
    said = ", ".join(both)
    shown = mcpproxy("show", path).stdout.decode()
    assert f"revisions {said}" in shown
    assert f"revisions   {said}\n" in mcpproxy("info", path).stdout.decode()
    heading, *lines = shown.splitlines()
    assert (both[0] in heading, both[1] in heading) == (True, False)
    places = [at for at, line in enumerate(lines) if line.endswith(f"·  session 2 speaks revision {both[1]}")]
    assert len(places) == 1, shown
    assert "←  initialize #0" in lines[places[0] - 1], "the answer that settles it"
    assert f"<code>{said}</code>" in mcpproxy("show", "--format", "markdown", path).stdout.decode()
    assert mcpproxy("report", "--output", tmp_path / "report.html", path).returncode == 0
    assert said in (tmp_path / "report.html").read_text("utf-8")
