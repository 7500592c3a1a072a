"""Lays out the lines of a conversation in columns.

A row has an arrow, the message, its outcome, latency and size. Times are on the left and numbers on the right, so that
both are easy to scan; the middle takes the remaining width. `!` marks a message that violates a rule, `✗` a frame that
is not a message; the id of the rule follows and is never cut.
"""

from typing import Final, NamedTuple, TypeAlias

from analysis.conversation.call import Seen
from analysis.conversation.message import Invalid, Notification, Request, Response, sender
from analysis.facts import size_of
from captures.frame import Frame
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording import units
from mcpproxy.wording.messages import (
    EXCERPT,
    Status,
    aside_of,
    aside_spans,
    gist,
    id_text,
    name_of,
    notification_gist,
    status_of,
)
from mcpproxy.wording.records import Remark
from mcpproxy.wording.text import WHOLE, Role, Span, cells, fit, fit_spans, ms_text

NARROWEST: Final = 40
"""The narrowest layout, in columns; on a narrower terminal lines wrap."""

USUAL: Final = 96
"""The column where the right-hand numbers end, unless the text before them is longer."""

ROOMY: Final = 56
"""Cells after the time and the arrow from which on columns stay aligned even if text is cut."""

_TIME: Final = 8
_GLYPH: Final = 3
_STATUS: Final = 14
_SUBJECT: Final = 16
"""Cells of a subject before which other things give way."""
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
    """A request without a response, as it stood when that had to be said: one may come later."""

    request: Request
    status: Status
    """What had become of it by then."""


Item: TypeAlias = Seen | Batch | Unanswered | Remark
"""What has a line: a message; its batch, which precedes it; a request left open; anything else."""


class Row(NamedTuple):
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


def lay_out(row: Row, clock: str, width: int) -> list[list[Span]]:
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
    # What needs a line of its own goes below the numbers, where it has more room to be read.
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


def _body_and_tail(row: Row, room: int, *, is_roomy: bool) -> tuple[list[Span], str]:
    """The body, and the numbers after it, in so many cells.

    What gives way if room is short, in this order: the text, the columns, the size, the latency, the subject, and the
    outcome, which tells whether a call has failed.

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


def _least(row: Row) -> int:
    """The cells that the outcome needs, and enough of the subject to recognise it."""
    subject = min(_SUBJECT, sum(cells(span.text) for span in row.subject if span.text.strip()))
    return subject if row.outcome is None else subject + 2 + cells(row.outcome.text)


def row_of(item: Item, width: int) -> Row:
    """The row of an item; `width` decides how wide its columns are."""
    frame = _frame_of(item)
    exchange = item.exchange if isinstance(item, Remark) else None if frame is None else frame.exchange
    width -= _FRAME + 1 + (0 if exchange is None else _EXCHANGE + 1)
    return _row_of(item, width)._replace(frame=None if frame is None else frame.seq, exchange=exchange)


def _frame_of(item: Item) -> Frame | None:
    if isinstance(item, Remark):
        return None
    if isinstance(item, Batch):
        return item.frame
    return (item.message if isinstance(item, Seen) else item.request).frames[0]


def _row_of(item: Item, width: int) -> Row:
    if isinstance(item, Seen):
        return _message(item, width)
    if isinstance(item, Batch):
        problem = item.frame.verdict.problem
        body = [Span(f"batch of {item.holds:,}")]
        arrow = _arrow(item.frame, "!" if problem else "")
        return Row(arrow, body, problem=problem, size=units.size(len(item.frame.raw)))
    if isinstance(item, Unanswered):
        status = item.status
        outcome = Span(status.word, "bad" if status.is_bad else "plain")
        rest = (Span(status.text), Span(f"  {gist(item.request)}", "dim"))
        return Row(_arrow(item.request.frames[0]), _subject(item.request, "dim", width), outcome, rest)
    return Row(Span(item.glyph, item.role), [Span(item.text, item.role)], error=item.detail)


def _message(seen: Seen, width: int) -> Row:
    message = seen.message
    frame = message.frames[0]
    if message.index is not None:
        # The batch above already shows size and problem.
        row = _by_kind(seen, width - 8)
        return row._replace(subject=[Span("  "), *row.subject])
    row = _by_kind(seen, width)._replace(size=units.size(size_of(message.frames)))
    problem = frame.problem
    if row.problem is not None or problem is None or seen.is_beside:
        return row
    return row._replace(problem=problem, glyph=_arrow(frame, "!"))


def _by_kind(seen: Seen, width: int) -> Row:
    message = seen.message
    arrow = _arrow(message.frames[0])
    if seen.is_again and isinstance(message, Request | Notification):
        method = Span(sanitise(message.method), "dim")
        return Row(arrow, [method, _padding(width, method)], text=(Span("again, after the redirect", "dim"),))
    if isinstance(message, Invalid):
        return _invalid(seen, message)
    if isinstance(message, Response):
        return _answer(seen, message, width)
    if isinstance(message, Request):
        return Row(arrow, _subject(message, "accent", width), text=(Span(gist(message), "dim"),))
    method = Span(sanitise(message.method))
    return Row(arrow, [method, _padding(width, method)], text=(Span(notification_gist(seen, message), "dim"),))


def _answer(seen: Seen, response: Response, width: int) -> Row:
    status = status_of(response, seen.answered, seen.id_state, seen.meant)
    call = seen.answered
    if call is None:
        answer = Span(f"answer{id_text(response.id)}")
        subject = [answer, _padding(width, answer)]
    else:
        subject = _subject(call.request, "dim", width)
    # `is_converted`: the request had the id 7 and the response has "7", or the other way round. The row shows them as a
    # pair, but most clients do not match the two and keep waiting.
    return Row(
        _arrow(response.frames[0], "!" if seen.is_converted else ""),
        subject,
        Span(status.word, "bad" if status.is_bad else "plain"),
        (Span(f"  {status.text}", "dim"),) if status.text and not status.is_bad else (),
        problem="id/type-changed" if seen.is_converted else None,
        error=status.text if status.is_bad else "",
        latency=ms_text(call.latency_ns or 0) if call is not None else "",
    )


def _invalid(seen: Seen, message: Invalid) -> Row:
    frame = message.frames[0]
    aside = aside_of(message, is_beside=seen.is_beside)
    if aside is not None:
        return Row(_arrow(frame), aside_spans(aside))
    text = sanitise_bytes(frame.raw, EXCERPT)
    quoted = f': "{text}"' if message.index is None else f": element {message.index + 1:,}"
    return Row(_arrow(frame, "✗"), [Span("not a message", "bad"), Span(quoted)], problem=message.reason)


def _column(width: int) -> int:
    """The width of the subject of a row."""
    width = USUAL if width > WHOLE // 2 else width
    return min(24 + max(-8, width - 80) // 4, 40)


def _subject(request: Request, role: Role, width: int) -> list[Span]:
    """Method, id and name, padded to a column; clipped if they would push the status out of the line."""
    id_ = id_text(request.id)
    most = max(_column(width), width - 36 - _STATUS)
    method = fit(sanitise(request.method), most - cells(id_))
    name = name_of(request)
    name = f" {fit(name, most - cells(method) - cells(id_) - 1)}" if name else ""
    spans = [Span(method, role), Span(id_ + name.rstrip(), "dim" if role == "dim" else "plain")]
    return [*spans, _padding(width, *spans)]


def _padding(width: int, *spans: Span) -> Span:
    """The spaces between the subject of a row and the rest."""
    return Span(" " * (max(0, _column(width) - sum(cells(span.text) for span in spans)) + 2))


def _arrow(frame: Frame, mark: str = "") -> Span:
    arrow = "→" if sender(frame) == "client" else "←"
    return Span(arrow + mark, "bad" if mark else "accent")
