"""Row text: the text of one row of the traffic, read again from the file. The wording is the same as in `show`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from analysis.conversation.call import Call
from analysis.conversation.message import (
    Id,
    Invalid,
    Message,
    Notification,
    Request,
    Response,
    message_of,
    messages,
    parse_exactly,
)
from analysis.conversation.session import Session, seen_of
from analysis.facts import raw_of
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.tui.data.reading import Reading
from mcpproxy.wording.messages import (
    EXCERPT,
    ID_CELLS,
    aside_of,
    aside_spans,
    gist,
    id_text,
    name_of,
    notification_gist,
    outcome_word,
    status_of,
)
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.text import Role, Span, fit
from mcpproxy.wording.units import size

LARGE: Final = 1 << 20
"""Bytes. A row of a larger frame shows only members of its record: drawing a line must not parse a gigabyte."""


class RowText(NamedTuple):
    """The text of a row, without time, latency and size."""

    way: Span
    what: Sequence[Span]
    id: str = ""
    status: Span = Span("")
    more: str = ""
    http: int | None = None
    """Over HTTP, for a response: the number of its HTTP exchange."""
    is_wide: bool = False
    """Whether `what` runs on to the end of the row."""
    is_final: bool = True
    """Whether it stays the same as more rows are understood."""


WAITING: Final = RowText(Span(""), (Span("…", "dim"),), is_final=False)
_GONE: Final = RowText(
    Span("▲", "bad"), (Span("gone: its recorder has deleted this part, or the file was changed", "bad"),)
)


def text_of(reading: Reading, row: int) -> RowText:
    """The text of a row."""
    if reading.is_continued(row):
        record = reading.index.beginning(row)
        raw = record.members.get("raw") if record is not None else None
        return RowText(
            Span(" ┆", "dim"), (Span(sanitise(raw if isinstance(raw, str) else "…", EXCERPT), "dim"),), is_wide=True
        )
    if reading.index.entry(row).size > LARGE:
        return _large(reading, row)
    item = reading.index.item(row)
    if item is None:
        return _GONE
    if not isinstance(item, Frame):
        remark = remark_on(item, ended=False)
        if remark is None:
            return RowText(Span("·", "dim"), (Span(item.rec if isinstance(item, Record) else "", "dim"),), is_wide=True)
        text = f"{remark.text}  {remark.detail}" if remark.detail else remark.text
        if isinstance(item, Damage):
            # The screen already says which file it is in.
            text = sanitise(str(item).removeprefix(f"{item.path}: "))
        return RowText(Span(remark.glyph, remark.role), (Span(text, remark.role),), is_wide=True)
    message = message_at(reading, row, item)
    if item.verdict.kind == "batch":
        count = len(messages(item))
        return RowText(
            way_of(item, message), (Span(f"batch of {count:,}"), Span(f"  {item.verdict.problem or ''}", "bad"))
        )
    return _message(reading, row, item, message)


def _large(reading: Reading, row: int) -> RowText:
    """A frame that is too large to parse for a line: what its record and its exchange say."""
    entry, record = reading.index.entry(row), reading.index.beginning(row)
    members = record.members if record is not None else {}
    arrow, is_final = Span("→" if entry.dir == "c2s" else "←", "accent"), row < reading.understood
    number, request = reading.call(row), _request_for(reading, row)
    id_, http = members.get("id"), members.get("exchange")
    id_cell = fit(sanitise(id_, EXCERPT), ID_CELLS) if isinstance(id_, str) else ""
    more = f"{size(entry.size)}, too large to read for this line"
    if number is not None and request is not None:
        outcome = reading.outcome(number)
        word, is_bad = outcome_word(outcome)
        what = (Span(sanitise(request.method, EXCERPT), "dim"), Span(f" {name_of(request)}", "dim"))
        status = Span(word, "bad" if is_bad else "plain")
        id_cell = id_text(request.id).removeprefix(" #")
        return RowText(arrow, what, id_cell, status, more, http if type(http) is int else None, is_final=is_final)
    method = members.get("method")
    call = reading.kinds.all[reading.calls.kind[number]] if number is not None else None
    name = sanitise(call.name, EXCERPT) if call is not None and call.name is not None else ""
    word = sanitise(method, EXCERPT) if isinstance(method, str) else entry.sort if is_final else "…"
    if call is not None and not call.is_rest:
        word = sanitise(call.method, EXCERPT)
    return RowText(
        arrow, (Span(word, "accent"), Span(f" {name}" if name else "")), id_cell, more=more, is_final=is_final
    )


def short_call(what: Sequence[Span]) -> Sequence[Span]:
    """The method and name of a call of a tool without `tools/`, for where there is little room; others unchanged."""
    return (Span("call", what[0].role), *what[1:]) if what[0].text == "tools/call" else what


def _message(reading: Reading, row: int, frame: Frame, message: Message) -> RowText:
    way, problem = way_of(frame, message), frame.problem
    wrong = Span(f"  {problem}" if problem and reading.joined_to(row) is None else "", "bad")
    if isinstance(message, Request):
        what = (Span(sanitise(message.method, EXCERPT), "accent"), Span(f" {name_of(message)}"), wrong)
        return RowText(way, what, id_text(message.id).removeprefix(" #"), more=gist(message))
    if isinstance(message, Notification):
        event = seen_of(message, Session(0, None, {}, 0))
        is_cancel = message.method.endswith("cancelled")
        more = gist(message) if is_cancel else notification_gist(event, message)
        return RowText(way, (Span(sanitise(message.method, EXCERPT)), wrong), more=more)
    if isinstance(message, Response):
        return _answer(reading, row, way, message, wrong)
    return _invalid(reading, row, frame, message, way)


def _unknown_request(response: Response) -> Request:
    """The request of a response before it is known: nothing but its id."""
    return Request(
        response.frames,
        None,
        "client",
        response.seq,
        response.t_ns,
        {},
        id=response.id or Id("null", "null"),
        method="",
    )


def _answer(reading: Reading, row: int, way: Span, response: Response, wrong: Span) -> RowText:
    is_final = row < reading.understood
    request = _request_for(reading, row)
    # Before the row is understood, only the content is known, and not the request.
    known_request = request or (None if is_final else _unknown_request(response))
    exchange = None
    if known_request is not None:
        exchange = Call(known_request)
        exchange.answer(response)
    status = status_of(response, exchange, reading.misfit(row))
    role: Role = "bad" if status.is_bad else "plain"
    if request is None:
        what: tuple[Span, ...] = (Span("answer" if is_final else "…", "dim"), wrong)
    else:
        what = (Span(sanitise(request.method, EXCERPT), "dim"), Span(f" {name_of(request)}", "dim"), wrong)
    id_ = id_text(response.id).removeprefix(" #")
    http = response.frames[0].exchange
    return RowText(way, what, id_, Span(status.word, role), status.text, http, is_final=is_final)


def _invalid(reading: Reading, row: int, frame: Frame, message: Invalid, way: Span) -> RowText:
    is_final = row < reading.understood
    aside = aside_of(message, is_beside=reading.is_beside(row))
    if aside is not None:
        return RowText(Span(way.text[0], "accent"), aside_spans(aside), is_wide=True, is_final=is_final)
    text = sanitise_bytes(frame.raw, EXCERPT)
    spans = (Span("not a message", "bad"), Span(f': "{text}"  '), Span(message.reason, "bad"))
    return RowText(Span(f"{way.text[0]}✗", "bad"), spans, is_wide=True, is_final=is_final)


def way_of(frame: Frame, message: Message) -> Span:
    """The arrow of a frame, with a mark if it breaks a rule by itself."""
    arrow = "→" if frame.dir == "c2s" else "←"
    wrong = frame.problem is not None and len(message.frames) == 1
    return Span(f"{arrow}!" if wrong else arrow, "bad" if wrong else "accent")


def message_at(reading: Reading, row: int, frame: Frame) -> Message:
    """The first message of a row, with all the lines that it spans."""
    last = reading.joined_to(row)
    if last is not None:
        items = [reading.index.item(item) for item in range(row, min(last, row + 10_000) + 1)]
        frames = tuple(item for item in items if isinstance(item, Frame) and item.dir == frame.dir)
        try:
            whole = message_of(frame, None, parse_exactly(raw_of(frames)))
        except (ValueError, RecursionError):
            return messages(frame)[0]
        whole.frames = frames
        return whole
    return messages(frame)[0]


def _request_for(reading: Reading, row: int) -> Request | None:
    """The request that the response in a row answers, unless it is too large to be read for a line."""
    number = reading.call(row)
    if number is None or reading.index.entry(reading.calls.request[number]).size > LARGE:
        return None
    return request_of(reading, row)


def request_of(reading: Reading, row: int) -> Request | None:
    """The request that the response in a row answers."""
    number = reading.call(row)
    request_row = reading.calls.request[number] if number is not None else row
    item = reading.index.item(request_row) if request_row != row else None
    if not isinstance(item, Frame):
        return None
    if item.verdict.kind == "batch":
        return next((request for request in messages(item) if isinstance(request, Request)), None)
    message = message_at(reading, request_row, item)
    return message if isinstance(message, Request) else None
