"""Row text: the text of one row of the traffic, read again from the file. The wording is the same as in `show`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from analysis.conversation.cancellations import CANCELLATION_METHODS
from analysis.conversation.message import (
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    message_count,
)
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.login_rows import LoginState
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import MAX_LINE_FRAME_BYTES, call_at, late_ns, message_at, request_of
from mcpproxy.wording import lines
from mcpproxy.wording.cells import fit
from mcpproxy.wording.gists import brief_gist
from mcpproxy.wording.lines import Line
from mcpproxy.wording.meaning import Meaning
from mcpproxy.wording.names import MAX_ID_CELLS, id_text, name_of
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.spans import Span
from mcpproxy.wording.statuses import Status, content_status, outcome_status
from mcpproxy.wording.units import size
from mcpproxy.wording.values import MAX_EXCERPT_CHARS


class RowText(NamedTuple):
    """The text of a row, without time, latency and size."""

    direction: Span
    subject: Sequence[Span]
    id: str = ""
    status: Status | None = None
    details: str = ""
    http: int | None = None
    """Over HTTP, for a response: the number of its HTTP exchange."""
    is_wide: bool = False
    """Whether `subject` extends to the end of the row."""
    is_final: bool = True
    """Whether it stays the same when more rows have been interpreted."""
    login: int = 0
    """For the head and the legs of a login: its number."""
    login_state: LoginState | None = None
    """What was known about that login."""
    turn: str = ""
    """The id of the turn that its call belongs to, if it is wanted."""
    problem: str = ""
    """The rule that the frame itself breaks, which follows `subject`."""
    brief_details: str = ""
    """For a request: `details` in a form that leaves more room for the response."""


PENDING_TEXT: Final = RowText(Span(""), (Span("…", "dim"),), is_final=False)
GONE_TEXT: Final = RowText(
    Span("▲", "bad"), (Span("gone: its recorder has deleted this part, or the file was changed", "bad"),)
)


def text_of(reading: Reading, row: int) -> RowText:
    """Returns the text of a row."""
    if reading.is_continued(row):
        record = reading.index.read_first_part(row)
        raw = record.members.get("raw") if record is not None else None
        return RowText(
            Span(" ┆", "dim"),
            (Span(sanitise(raw if isinstance(raw, str) else "…", MAX_EXCERPT_CHARS), "dim"),),
            is_wide=True,
        )
    if reading.index.entry(row).size > MAX_LINE_FRAME_BYTES:
        return _large_frame_text(reading, row)
    item = reading.index.read_item(row)
    if item is None:
        return GONE_TEXT
    if not isinstance(item, Frame):
        remark = remark_on(item, ended=False)
        if remark is None:
            return RowText(Span("·", "dim"), (Span(item.rec if isinstance(item, Record) else "", "dim"),), is_wide=True)
        text = remark.full_text
        if isinstance(item, Damage):
            # The screen already says which file it is in.
            text = sanitise(str(item).removeprefix(f"{item.path}: "))
        return RowText(Span(remark.glyph, remark.role), (Span(text, remark.role),), is_wide=True)
    if item.verdict.kind == "batch":
        line = lines.line_of_batch(item, message_count(item))
        return RowText(line.direction, (line.subject,), problem=line.problem)
    return _message_text(reading, row, message_at(reading, row, item))


def _large_frame_text(reading: Reading, row: int) -> RowText:
    """Returns the text of a frame that is too large to parse for a line, from its record and its exchange."""
    entry, record = reading.index.entry(row), reading.index.read_first_part(row)
    members = record.members if record is not None else {}
    arrow = lines.TO_SERVER if entry.dir == "c2s" else lines.TO_CLIENT
    is_final = row < reading.interpreted_count
    number = reading.call(row)
    request = None if number is None or reading.calls.request[number] == row else request_of(reading, number)
    id_, http = members.get("id"), members.get("exchange")
    id_cell = fit(sanitise(id_, MAX_EXCERPT_CHARS), MAX_ID_CELLS) if isinstance(id_, str) else ""
    note = f"{size(entry.size)}, too large to read for this line"
    if number is not None and request is not None:
        outcome = reading.outcome(number)
        spans = (Span(sanitise(request.method, MAX_EXCERPT_CHARS), "dim"), Span(f" {name_of(request)}", "dim"))
        status = None if outcome is None else outcome_status(outcome)._replace(late_ns=late_ns(reading, number))
        id_cell = id_text(request.id).removeprefix(" #")
        return RowText(arrow, spans, id_cell, status, note, http if type(http) is int else None, is_final=is_final)
    method = members.get("method")
    kind = reading.kinds.all[reading.calls.kind[number]] if number is not None else None
    name = sanitise(kind.name, MAX_EXCERPT_CHARS) if kind is not None and kind.name is not None else ""
    subject = sanitise(method, MAX_EXCERPT_CHARS) if isinstance(method, str) else entry.kind if is_final else "…"
    if kind is not None and not kind.is_catch_all:
        subject = sanitise(kind.method, MAX_EXCERPT_CHARS)
    return RowText(
        arrow, (Span(subject, "accent"), Span(f" {name}" if name else "")), id_cell, details=note, is_final=is_final
    )


def short_call(spans: Sequence[Span]) -> Sequence[Span]:
    """Returns the method and name of a tool call without `tools/`, to save room; other calls are unchanged."""
    return (Span("call", spans[0].role), *spans[1:]) if spans[0].text == "tools/call" else spans


def _message_text(reading: Reading, row: int, message: Message) -> RowText:
    is_final = row < reading.interpreted_count
    meaning = meaning_at(reading, row, message)
    line = lines.line(message, meaning)
    number = reading.call(row)
    if isinstance(message, Response) and meaning.call is None and number is not None:
        line = _without_request(line, reading, number, message)
    if not is_final:
        line = _before_interpretation(line, message)
    if line.kind == "invalid":
        spans: tuple[Span, ...] = (line.subject, Span(f": {line.gist.text}  "), Span(line.problem, "bad"))
        return RowText(line.direction, spans, is_wide=True, is_final=is_final)
    if line.kind == "aside":
        text = (Span("  "), line.gist) if line.gist.text else ()
        problem = Span(f"  {line.problem}" if line.problem else "", "bad")
        return RowText(line.direction, (line.subject, *text, problem), is_wide=True, is_final=is_final)
    subject = Span(line.subject.text, "dim" if line.kind == "response" else line.subject.role)
    spans = (subject, Span(f" {line.name}" if line.name else "", line.role))
    if isinstance(message, Response):
        assert line.status is not None
        id_, http = id_text(message.id).removeprefix(" #"), message.frames[0].exchange
        return RowText(
            line.direction, spans, id_, line.status, line.status.text, http, is_final=is_final, problem=line.problem
        )
    return RowText(
        line.direction,
        spans,
        line.id.removeprefix("#"),
        details=line.gist.text,
        is_final=is_final,
        problem=line.problem,
        brief_details=brief_gist(message, meaning) if isinstance(message, Request) else "",
    )


def _without_request(line: Line, reading: Reading, number: int, response: Response) -> Line:
    """Returns the line of a response whose request is gone or too large to be read, from the kind of its call."""
    kind = reading.kinds.all[reading.calls.kind[number]]
    method = line.subject.text if kind.is_catch_all else sanitise(kind.method, MAX_EXCERPT_CHARS)
    name = "" if kind.name is None else sanitise(kind.name, MAX_EXCERPT_CHARS)
    return line._replace(
        subject=Span(method, "dim"),
        name=name,
        status=content_status(response)._replace(late_ns=late_ns(reading, number)),
    )


def _before_interpretation(line: Line, message: Message) -> Line:
    """Returns a line without anything about other messages, as long as its row has not been interpreted."""
    if isinstance(message, Response):
        return line._replace(subject=Span("…", "dim"), status=content_status(message))
    if isinstance(message, Notification) and message.method in CANCELLATION_METHODS:
        return line._replace(gist=Span("…", "dim"))
    return line


def meaning_at(reading: Reading, row: int, message: Message) -> Meaning:
    """Returns the meaning of the message in a row, assembled from the cells of the row and its call."""
    calls, number = reading.calls, reading.call(row)
    if isinstance(message, InvalidMessage):
        return Meaning(is_stray_body=reading.is_stray_body(row))
    if isinstance(message, Request):
        return Meaning(is_repeat=reading.is_repeat(row))
    if isinstance(message, Notification):
        cancellation = reading.conversation.cancellations.get(row)
        if cancellation is None or cancellation.call >= len(calls):
            return Meaning(id_state=reading.misfit(row), is_repeat=reading.is_repeat(row))
        request = request_of(reading, cancellation.call)
        waited_ns, is_abandoned = cancellation.waited_ns, cancellation.is_abandoned
        return Meaning(cancels=request, cancelled_after_ns=waited_ns, is_abandoned=is_abandoned)
    call = None if number is None or calls.request[number] == row else call_at(reading, number, message)
    if call is None:
        return Meaning(id_state=reading.misfit(row), probable_request=reading.conversation.guesses.get(row, ""))
    id_ = message.id
    return Meaning(call, is_converted=id_ is not None and id_.is_answerable and id_ != call.request.id)
