"""Lays out the lines of a conversation in columns.

A row has an arrow, the message, its outcome, latency and size. Times are on the left and numbers on the right, so that
both are easy to scan; the middle takes the remaining width. `!` marks a message that violates a rule, `✗` a frame that
is not a message; the id of the rule follows and is never cut.
"""

from typing import Final, NamedTuple, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.facts import size_of as bytes_in
from captures.frame import Frame
from mcpproxy.wording import lines, units
from mcpproxy.wording.cells import WHOLE, cells, fit
from mcpproxy.wording.lines import Line
from mcpproxy.wording.records import Remark
from mcpproxy.wording.spans import Span, fit_spans
from mcpproxy.wording.statuses import Status
from mcpproxy.wording.units import ms_text

NARROWEST: Final = 40
"""The narrowest layout, in columns; on a narrower terminal lines wrap."""

USUAL: Final = 96
"""The column where the right-hand numbers end, unless the text before them is longer."""

ROOMY: Final = 56
"""With at least this many cells after the time and the arrow, columns stay aligned even if text is cut."""

_TIME: Final = 8
_GLYPH: Final = 3
_STATUS: Final = 14
_SUBJECT: Final = 16
"""Cells of a subject that are kept; other things give way first."""
_ERROR: Final = _TIME + 2 + _GLYPH
"""The indent, in cells, of an error text on a separate line."""
_FRAME: Final = 4
"""Columns of a frame's number; more digits push the rest to the right."""
_EXCHANGE: Final = 4
"""Columns of an exchange's number; more digits push the rest to the right."""


class Batch(NamedTuple):
    """A frame with several messages, shown before them."""

    frame: Frame
    holds: int


class Unanswered(NamedTuple):
    """A request without a response, in its state when the line was due: a response may come later."""

    request: Request
    status: Status
    """What had become of it by then."""


Item: TypeAlias = MessageContext | Batch | Unanswered | Remark
"""What gets a line: a message; its batch, which precedes it; a request left open; anything else."""


class ConversationRow(NamedTuple):
    """A line before it is laid out."""

    glyph: Span
    subject: list[Span]
    """What it is about, with the spaces that align what follows."""
    outcome: Span | None = None
    """What became of a request."""
    text: tuple[Span, ...] = ()
    """The rest of the body."""
    problem: str | None = None
    """The rule that a frame breaks by itself."""
    error: str = ""
    """The text of an error: after the body if it fits, otherwise on a separate line."""
    latency: str = ""
    size: str = ""
    frame: int | None = None
    """The number of its frame; None for anything other than messages."""
    exchange: int | None = None
    """The HTTP exchange that it belongs to."""


def lay_out(row: ConversationRow, clock: str, width: int) -> list[list[Span]]:
    """The row in columns: one line, and more below it for a rule or the text of an error that does not fit.

    Args:
        row: what to write.
        clock: its time.
        width: columns of the terminal, at least NARROWEST.
    """
    glyph = row.glyph.text
    number = f"{'' if row.frame is None else row.frame:>{_FRAME}} "
    if row.exchange is not None:
        number += f"{f'@{row.exchange}':>{_EXCHANGE}} "
    head = [Span(f"{clock:>{_TIME}}  {number}", "dim"), row.glyph, Span(" " * (_GLYPH - len(glyph)))]
    room = max(0, width - max(_TIME, len(clock)) - 2 - len(number) - _GLYPH)
    is_roomy = room >= ROOMY and not row.problem
    # What needs a separate line goes below the numbers, where it has more room.
    below: list[Span] = []
    problem = [Span("  "), Span(row.problem, "bad")] if row.problem else []
    if row.problem and room - len(row.problem) - 2 < _least(row):
        below, problem = [problem[1]], []
    room -= sum(cells(span.text) for span in problem)
    body, tail = _body_and_tail(row, max(0, room), is_roomy=is_roomy)
    used, most = sum(cells(span.text) for span in body), _room_before(tail, room)
    error = f"  {row.error}" if row.error else ""
    if used + cells(error) <= most:
        body, used = [*body, Span(error)], used + cells(error)
    else:
        below = [*below, *([Span("  ")] if below else []), Span(row.error)]
    spare = most - used - (WHOLE - USUAL if width >= WHOLE else 0)
    gap = [Span(" " * (max(0, spare) + 2)), Span(tail, "dim")] if tail else []
    line = fit_spans([*head, *body, *problem, *gap], width)[0]
    return [line, [Span(" " * _ERROR), *fit_spans(below, width - _ERROR)[0]]] if below else [line]


def _body_and_tail(row: ConversationRow, room: int, *, is_roomy: bool) -> tuple[list[Span], str]:
    """The body, and the numbers after it, in so many cells.

    What gives way if room is short, in this order: the text, the columns, the size, the latency, the subject, and the
    outcome, which shows whether a call has failed.

    Args:
        row: the row.
        room: cells for both.
        is_roomy: whether columns matter more than the text.
    """
    outcome = [] if row.outcome is None else [row.outcome]
    tail = f"{row.latency:>8}  {row.size:>8}" if row.latency else row.size
    most = _room_before(tail, room)
    body, used = fit_spans([*row.subject, *outcome, *row.text], most)
    if used < most or (is_roomy and body[: len(row.subject) + len(outcome)] == [*row.subject, *outcome]):
        return body, tail
    tails = [f"{row.latency:>7}  {row.size:>6}", row.latency] if row.latency else [row.size]
    tail = next((tail for tail in tails if _room_before(tail, room) >= _least(row)), "")
    most = _room_before(tail, room)
    padding = Span("  ")
    subject = [padding if not span.text.strip() else span for span in row.subject]
    if row.outcome is not None:
        words, used = fit_spans(subject[:-1], max(0, most - cells(row.outcome.text) - cells(padding.text)))
        subject = [*words, padding] if used else []
    return fit_spans([*subject, *outcome, *row.text], most)[0], tail


def _room_before(tail: str, room: int) -> int:
    """The cells that the numbers at the end of a line leave for the rest."""
    return max(0, room - (len(tail) + 2 if tail else 0))


def _least(row: ConversationRow) -> int:
    """The cells that the outcome needs, and enough of the subject to recognise it."""
    subject = min(_SUBJECT, sum(cells(span.text) for span in row.subject if span.text.strip()))
    return subject if row.outcome is None else subject + 2 + cells(row.outcome.text)


def row_of(item: Item, width: int) -> ConversationRow:
    """The row of an item; `width` decides how wide its columns are."""
    if isinstance(item, Remark):
        subject = [Span(item.text, item.role)]
        return ConversationRow(Span(item.glyph, item.role), subject, error=item.detail, exchange=item.exchange)
    frame, size, line, latency = frame_of(item), size_of(item), line_of(item), ""
    width -= _FRAME + 1 + (0 if frame.exchange is None else _EXCHANGE + 1)
    # The line of the batch is above those of its messages.
    is_inside = isinstance(item, MessageContext) and item.message.index is not None
    said = _parts(line, width - 8 if is_inside else width)
    if isinstance(item, MessageContext) and item.answered is not None:
        took = ms_text(item.answered.latency_ns or 0)
        latency = took if item.answered.has_exact_times else f"~{took}"
    return ConversationRow(
        line.way,
        [Span("  "), *said.subject] if is_inside else said.subject,
        said.outcome,
        said.text,
        line.problem or None,
        said.error,
        latency,
        "" if size is None else units.size(size),
        frame.seq,
        frame.exchange,
    )


def frame_of(item: MessageContext | Batch | Unanswered) -> Frame:
    """The frame of an item; the first one of a message that spans several."""
    if isinstance(item, Batch):
        return item.frame
    return (item.message if isinstance(item, MessageContext) else item.request).frames[0]


def line_of(item: MessageContext | Batch | Unanswered) -> Line:
    """The content of the line of an item."""
    if isinstance(item, Batch):
        return lines.batch(item.frame, item.holds)
    return lines.line_of(item) if isinstance(item, MessageContext) else lines.ended(item.request, item.status)


def size_of(item: MessageContext | Batch | Unanswered) -> int | None:
    """The bytes that its line is about, or None if another line says them."""
    if isinstance(item, Batch):
        return len(item.frame.raw)
    return bytes_in(item.message.frames) if isinstance(item, MessageContext) and item.message.index is None else None


class _LineParts(NamedTuple):
    """The content of a line, in the order in which it is written; see `ConversationRow`."""

    subject: list[Span]
    outcome: Span | None = None
    text: tuple[Span, ...] = ()
    error: str = ""


def _parts(line: Line, width: int) -> _LineParts:
    if line.kind == "invalid":
        return _LineParts([line.subject, Span(": "), line.gist])
    if line.kind in ("aside", "batch"):
        return _LineParts([line.subject, Span("  "), line.gist] if line.gist.text else [line.subject])
    subject, status = _subject(line, width), line.status
    if status is None:
        return _LineParts(subject, text=(line.gist,))
    outcome = Span(status.word, "bad" if status.is_bad else "plain")
    if line.kind == "request":
        return _LineParts(subject, outcome, (Span(status.text), Span(f"  {line.gist.text}", line.gist.role)))
    if status.is_bad:
        return _LineParts(subject, outcome, error=status.text)
    return _LineParts(subject, outcome, (Span(f"  {status.text}", "dim"),) if status.text else ())


def _column(width: int) -> int:
    """The width of the subject of a row."""
    width = USUAL if width > WHOLE // 2 else width
    return min(24 + max(-8, width - 80) // 4, 40)


def _subject(line: Line, width: int) -> list[Span]:
    """Method, id and name, padded to a column; clipped if they would push the status out of the line."""
    id_ = f" {line.id}" if line.id else ""
    most = max(_column(width), width - 36 - _STATUS) if line.id else None
    method = line.subject.text if most is None else fit(line.subject.text, most - cells(id_))
    name = line.name
    if name and most is not None:
        name = fit(name, most - cells(method) - cells(id_) - 1)
    named = Span(f"{id_}{f' {name}' if name else ''}".rstrip(), line.role)
    spans = [Span(method, line.subject.role), *([named] if named.text else [])]
    return [*spans, _padding(width, *spans)]


def _padding(width: int, *spans: Span) -> Span:
    """The spaces between the subject of a row and the rest."""
    return Span(" " * (max(0, _column(width) - sum(cells(span.text) for span in spans)) + 2))
