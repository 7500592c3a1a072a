"""Rows of the traffic: what they show, in which order, and how to go to a particular one."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from rich.style import Style

from analysis import clock
from analysis.conversation.message import Request
from analysis.reading import Reading as Whole
from analysis.summary import Summary
from captures.frame import Frame
from captures.record import members
from mcpproxy.report.conversation import Conversation
from mcpproxy.tui.data import reading as reading_module
from mcpproxy.tui.data import sorting as sorting_module
from mcpproxy.tui.data import worker
from mcpproxy.tui.data.call_cells import MIN_RESPONSES
from mcpproxy.tui.data.columns import BAD, NONE
from mcpproxy.tui.data.http_exchanges import HttpExchanges
from mcpproxy.tui.data.row_views import ExcludedRows, FilteredRows
from mcpproxy.tui.data.sorting import RowSorter
from mcpproxy.tui.details.detail import detail, exchange_lines
from mcpproxy.tui.rows.row_calls import call_at
from mcpproxy.tui.rows.row_text import text_of
from mcpproxy.tui.safe_text import segments
from mcpproxy.tui.screens.sessions import COLUMNS, age_text
from mcpproxy.wording.facts import facts, status_of
from mcpproxy.wording.lines import Line, line_of
from mcpproxy.wording.records import Remark
from mcpproxy.wording.spans import Span
from tests.analysis.http_trace import ASKED, SERVED, HttpTrace, notification, request, result
from tests.analysis.traces import corpus
from tests.captures.samples import header
from tests.mcpproxy.tui.http_talk import PROGRESS, post
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    INITIALIZE,
    INITIALIZED,
    Middles,
    captured,
    conversation,
    frame_record,
    record,
    timed,
)

RUN = 100
"""The number of rows that are sorted in one step."""


@contextmanager
def understood(path: Path) -> Iterator[Reading]:
    """A capture that was read to its end."""
    reading = Reading(path)
    try:
        while not reading.has_ended:
            reading.step()
        yield reading
    finally:
        reading.close()


class TestAtAGlance:
    def test_a_wide_character_that_is_cut_leaves_one_ellipsis(self) -> None:
        for width in range(4, 30):
            parts = segments([Span("図書館の目録を検索する道具"), Span("  more")], width, {"plain": Style()})
            assert "".join(part.text for part in parts).count("…") <= 1


class TestHttp:
    def test_a_view_leaves_out_places_of_a_list_that_grows(self) -> None:
        rows, left = list(range(0, 40, 2)), ExcludedRows()
        view = FilteredRows(rows, left)
        for place in (0, 3, 4, 19):
            left.add(place)
        wanted = [row for place, row in enumerate(rows) if place not in (0, 3, 4, 19)]
        assert [*view] == wanted
        assert [view[number] for number in range(len(view))] == wanted
        assert view[2:5] == wanted[2:5]
        assert [view.index(row) for row in wanted] == [*range(len(wanted))]
        with pytest.raises(ValueError, match="6"):
            view.index(6)
        left.add(20)
        assert [*view] == wanted
        rows.append(99)
        assert [*view] == wanted
        rows.append(100)
        assert [*view] == [*wanted, 100]

    def test_numbers_of_exchanges_are_not_trusted(self, tmp_path: Path) -> None:
        hostile = [
            ("exchange", members(exchange=number, stage="response", request=request, response=response))
            for number in (-1, 1 << 62, "7", 3)
            for request, response in (
                (None, {"status": "200"}),
                ([], {"status": -5}),
                ({"method": 7}, {"status": 1 << 70}),
            )
        ]
        path = record(tmp_path / "library/x.mcpcap", [("header", header(transport="http")), *hostile, END])
        with understood(path) as reading:
            assert all(reading.http.answer(number) is None for number in (None, 0, 3, 1 << 62))
        assert HttpExchanges().answer(0) is None


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("by", ["complete", "client", "server", "error"])
def test_the_end_of_a_stream_has_a_line_where_show_has_one(tmp_path: Path, by: str, answered: bool) -> None:
    answers = [PROGRESS % 1, *([FINE % (1, 1)] if answered else [])]
    talk = [*post(1, INITIALIZE, INITIALIZED), *post(2, CALL % (1, 1), *answers, stream=True, ended_by=by)]
    path = record(tmp_path / "x.mcpcap", [("header", header(transport="http")), *talk, END])
    whole = Whole(path)
    told = Conversation(whole.fold)
    remarks = [
        thing.content for step in whole.to_end() for thing in told.items_of(step) if isinstance(thing.content, Remark)
    ]
    with understood(path) as reading:
        texts = ["".join(span.text for span in text_of(reading, row).subject) for row in reading.folded_rows]
    ended = [text for text in texts if text.startswith("stream ended")]
    assert ended == [remark.text for remark in remarks if remark.text.startswith("stream ended")]
    assert bool(ended) is (by == "error" or not answered)


class TestOrder:
    def test_many_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sorting_module, "MAX_ROWS_PER_STEP", RUN)
        with understood(captured(tmp_path, calls=RUN)) as reading:
            for column, is_down, is_exchanges in product(
                ("latency", "size", "status", "time"), (True, False), (True, False)
            ):
                case = f"{column}, is_down={is_down}, is_exchanges={is_exchanges}"
                view = reading.calls.request if is_exchanges else reading.shown_rows
                sorting = RowSorter(reading, view, column, is_down=is_down, is_exchanges=is_exchanges)
                steps = 0
                while sorting.step():
                    steps += 1
                    assert 0 < sorting.progress <= 1, case
                assert steps > 2, case
                assert sorted(sorting.rows) == [*view], case
                values = [sorting._value(row) for row in sorting.rows]
                known = [value for value in values if value >= 0]
                assert values[: len(known)] == known, case
                assert known == sorted(known, reverse=is_down), case
                assert column != "latency" or len(known) == RUN + 2, (
                    f"{case}: the calls, initialize, and the request without an answer"
                )
                assert NONE not in sorting.rows, case


class TestUsual:
    def test_a_response_is_slow_above_the_p95_of_its_kind(self, tmp_path: Path) -> None:
        middles, stamps = conversation(2 * MIN_RESPONSES), [0, 1, 2, 3]
        for number in range(2 * MIN_RESPONSES):
            stamps += [10_000 * (number + 1), 10_000 * (number + 1) + 10 + number % 2 + 500 * (number == 30)]
        path = timed(tmp_path / "x.mcpcap", middles, [*stamps, stamps[-1], stamps[-1]])
        with understood(path) as reading:
            slow = [number for number in range(len(reading.calls)) if reading.is_slow(number)]
            few = timed(tmp_path / "few.mcpcap", conversation(MIN_RESPONSES - 1), [*range(2 * MIN_RESPONSES + 4)])
            with understood(few) as other:
                assert not any(map(other.is_slow, range(len(other.calls))))
        assert slow == [31]


class TestSessions:
    @pytest.mark.parametrize(
        ("days", "text"),
        [(0, "0s ago"), (3, "3d ago"), (99, "99d ago"), (100, "14w ago"), (364, "52w ago"), (800, "2y ago")],
    )
    def test_ages_fit_their_column(self, monkeypatch: pytest.MonkeyPatch, days: int, text: str) -> None:
        monkeypatch.setattr(clock, "age_ns", lambda _: days * 86_400 * 10**9)
        assert age_text(Summary(wall_ns=1), live=False) == text
        assert len(text) <= next(column.width for column in COLUMNS if column.name == "age")


class TestLive:
    def test_progress_only_goes_forward(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading_module, "STEP", 4 << 10)
        monkeypatch.setattr(worker, "STEP_BYTES", 1 << 8)
        reading = Reading(captured(tmp_path, calls=300))
        try:
            shares = [reading.progress]
            while not reading.has_ended:
                reading.step()
                shares.append(reading.progress)
        finally:
            reading.close()
        assert shares == sorted(shares)
        assert shares[0] < 0.2
        assert shares[-1] == 1


def test_a_body_where_no_message_is_due_is_not_called_a_message(tmp_path: Path) -> None:
    trace = HttpTrace()
    trace.answer(trace.post(request(0, "initialize", **ASKED)), result(0, **SERVED))
    initialized = trace.post(notification("notifications/initialized"))
    trace.answer(initialized, {"status": "accepted"}, status="202 Accepted")
    trace.answer(trace.post({}, method="PUT"), status="405 Method Not Allowed")
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    with understood(path) as reading:
        bad = [
            reading.index.read_item(row) for row in range(reading.interpreted_count) if reading.columns.marks[row] & BAD
        ]
        texts = [
            "".join(span.text for span in text_of(reading, row).subject) for row in range(reading.interpreted_count)
        ]
    assert not [item for item in bad if isinstance(item, Frame)]
    assert [text for text in texts if "body" in text] == ['body  {"status": "accepted"}', "body  {}"]


def lines_of(path: Path) -> dict[int, Line]:
    """The lines of `show` for messages that are alone in their frame, by frame number."""
    contexts = [context for step in Whole(path).to_end() for context in step.messages]
    return {one.message.frames[0].seq: line_of(one) for one in contexts if one.message.index is None}


PINGS = b'[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"tools/list"}]'
TWICE = CALL % (1, 1) + CALL.replace(b"search", b"find") % (2, 2)
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
BOTH = b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{"tools":[]}}'


@pytest.mark.parametrize(
    "middles",
    [
        [frame_record("c2s", PINGS), frame_record("s2c", FINE % (8, 8)), frame_record("s2c", FINE % (7, 7))],
        [frame_record("c2s", PINGS), frame_record("c2s", CANCEL % 7), frame_record("c2s", CANCEL % 8)],
        [frame_record("c2s", TWICE), frame_record("s2c", FINE % (2, 2)), frame_record("s2c", FINE % (1, 1))],
        [frame_record("c2s", CALL % (1, 1)), frame_record("s2c", BOTH)],
        [
            frame_record("c2s", (CALL % (1, 1)).replace(b'"n"', b'"%b"' % (b"n" * (1 << 20)))),
            frame_record("s2c", FINE % (1, 1)),
        ],
    ],
    ids=[
        "requests in a batch",
        "cancelled in a batch",
        "requests on one line",
        "a method and a result",
        "a request too large for a line",
    ],
)
def test_a_row_says_of_a_call_what_show_says(tmp_path: Path, middles: Middles) -> None:
    path = record(tmp_path / "x.mcpcap", [("header", header()), *middles, END])
    assert says_what_show_says(path, range(2, 1 + len(middles))) == len(middles) - 1


@pytest.mark.parametrize("name", ["batch-refused-rightly", "an-id-of-nobody-is-told-once", "redirected-and-repeated"])
def test_a_row_says_of_other_messages_what_show_says(tmp_path: Path, name: str) -> None:
    [case] = [case for _, case in corpus() if case.name == name]
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in case.records()))
    assert says_what_show_says(path, range(1, 1000)) > 4


@pytest.mark.parametrize(
    "name", ["batch-refused-rightly", "an-id-of-nobody-is-told-once", "id-answer-after-cancellation"]
)
def test_a_detail_says_of_other_messages_what_show_says(tmp_path: Path, name: str) -> None:
    [case] = [case for _, case in corpus() if case.name == name]
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in case.records()))
    seen = {seen.message.seq: seen for step in Whole(path).to_end() for seen in step.messages}
    found = 0
    with understood(path) as reading:
        for row in range(reading.interpreted_count):
            one = seen.get(reading.index.entry(row).seq)
            if one is None or isinstance(one.message, Request) or one.answered or one.message.index is not None:
                continue
            lines = ["".join(span.text for span in line) for line in exchange_lines(reading, row)]
            told = [f"{fact.name:<10}{fact.text}" for fact in facts(one, None)]
            assert lines[1:] == (told or ["not part of an exchange"])
            found += bool(told)
    assert found


def test_no_fact_of_an_exchange_is_cut(tmp_path: Path) -> None:
    reason = b"the user has left " * 12
    cancel = CANCEL.replace(b"}}", b',"reason":"%b"}}') % (1, reason)
    calls = [
        frame_record("c2s", CALL % (1, 1)),
        frame_record("c2s", CALL % (2, 2)),
        frame_record("c2s", cancel),
        frame_record("s2c", FINE % (99, 1)),
    ]
    middles = [*conversation(0)[:4], *calls, END]
    path = record(tmp_path / "x.mcpcap", middles)
    with understood(path) as reading:
        for row, end, width in ((4, "left", 55), (7, "open then", 60)):
            lines = ["".join(span.text for span in line) for line in detail(reading, row, "exchange", 0, width).lines]
            (long,) = [line for line in exchange_lines(reading, row) if sum(len(span.text) for span in line) > width]
            assert max(map(len, lines)) <= width
            assert long[1].text.rstrip().endswith(end)
            assert " ".join(long[1].text.split()) in " ".join(" ".join(lines).split())


def says_what_show_says(path: Path, rows: range) -> int:
    """Compare rows with the output of `show`; returns how many messages were compared."""
    lines, compared = lines_of(path), 0
    with understood(path) as reading:
        for row in range(rows.start, min(rows.stop, reading.interpreted_count)):
            line, text = lines.get(reading.index.entry(row).seq), text_of(reading, row)
            if line is None or reading.index.kind(row) == "batch" or line.kind in ("aside", "invalid"):
                continue
            assert (text.direction, text.status, text.id) == (line.direction, line.status, line.id[1:])
            words = [*"".join(span.text for span in text.subject).split(), *filter(None, (text.problem,))]
            assert text.details == (line.gist if line.status is None else line.status).text
            assert words == [*filter(None, (line.subject.text, line.name, line.problem))]
            compared += 1
    return compared


@pytest.mark.parametrize("repeats", [False, True], ids=["not repeated", "repeated, and refused there"])
def test_a_redirected_call_has_failed_where_all_commands_say(tmp_path: Path, repeats: bool) -> None:
    trace = HttpTrace()
    trace.answer(trace.post(request(0, "initialize", **ASKED)), result(0, **SERVED))
    trace.answer(trace.post(request(1, "ping")), status="307 Temporary Redirect", Location="/mcp/")
    if repeats:
        trace.answer(trace.post(request(1, "ping"), path="/mcp/"), status="502 Bad Gateway")
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    _, call = {call.number: call for step in Whole(path).to_end() for call in step.changed}.values()
    assert call.redirects == repeats
    with understood(path) as reading:
        lines = exchange_lines(reading, reading.calls.request[1])
    said = ["".join(span.text for span in line) for line in lines]
    assert f"outcome   {status_of(call).word}{status_of(call).text}" in said


def test_the_reason_of_a_cancellation_in_a_batch_is_its_own(tmp_path: Path) -> None:
    cancels = [CANCEL.replace(b"}}", b',"reason":"of %d"}}') % (n, n) for n in (8, 7)]
    middles = [("header", header()), frame_record("c2s", PINGS), frame_record("c2s", b"[%b,%b]" % (*cancels,)), END]
    path = record(tmp_path / "x.mcpcap", middles)
    calls = {call.number: call for step in Whole(path).to_end() for call in step.changed}
    with understood(path) as reading:
        again = [call_at(reading, number, None) for number in range(2)]
    assert (
        [call and call.cancel_reason for call in again]
        == [calls[n].cancel_reason for n in range(2)]
        == ["of 7", "of 8"]
    )
