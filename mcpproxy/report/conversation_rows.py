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
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit, fit_end
from mcpproxy.wording.lines import Line
from mcpproxy.wording.logins import LegLine, LoginSummary
from mcpproxy.wording.records import Remark
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.statuses import Status
from mcpproxy.wording.units import ms_text

MIN_WIDTH: Final = 40
"""The minimum width of the layout, in cells; on a narrower terminal, lines wrap."""

USUAL_WIDTH: Final = 96
"""The column where the right-hand numbers end, unless the text before them is longer."""

MIN_ROOMY_CELLS: Final = 56
"""With at least this many cells after the time and the arrow, columns stay aligned even if text is cut."""

_TIME_CELLS: Final = 8
_GLYPH_CELLS: Final = 3
_STATUS_CELLS: Final = 14
_MIN_SUBJECT_CELLS: Final = 16
"""How many cells of a subject are kept; everything else is cut first."""
_ERROR_INDENT: Final = _TIME_CELLS + 2 + _GLYPH_CELLS
"""The indent, in cells, of an error text on a separate line."""
_FRAME_CELLS: Final = 4
"""The width of a frame's number, in cells; more digits push the rest to the right."""
_LEG_NAME_CELLS: Final = 17
"""The width of the name of a leg, in cells: that of the longest, `resource metadata`."""
_MIN_LEG_PATH_CELLS: Final = 6
"""How many cells the end of a leg's path needs; with less room, its request is left out."""
_MIN_EXCHANGES_WIDTH: Final = 60
"""The width, in cells, from which a leg has the number of its exchange, and columns."""
_EXCHANGE_CELLS: Final = 4
"""The width of an exchange's number, in cells; more digits push the rest to the right."""


class Batch(NamedTuple):
    """A frame with several messages, shown before them."""

    frame: Frame
    message_count: int


class UnansweredRequest(NamedTuple):
    """A request without a response, in its state when the line was due: a response may come later."""

    request: Request
    status: Status
    """Its state at that time."""


Item: TypeAlias = MessageContext | Batch | UnansweredRequest | LoginSummary | Remark
"""The content of a line: a message; a batch, before its messages; a request without a response; a login; anything
else."""


class ConversationRow(NamedTuple):
    """A line before it is laid out."""

    glyph: Span
    subject: list[Span]
    """The subject of the line, with the spaces that align the rest."""
    outcome: Span | None = None
    """The outcome of a request."""
    text: tuple[Span, ...] = ()
    """The rest of the body."""
    problem: str | None = None
    """The rule that a frame breaks by itself."""
    error: str = ""
    """The text of an error: after the body if it fits, otherwise on a separate line."""
    latency: str = ""
    size: str = ""
    frame: int | None = None
    """The number of its frame, or of the record of a leg; None for anything else."""
    exchange: int | None = None
    """The HTTP exchange that it belongs to."""


def lay_out(row: ConversationRow, clock: str, width: int) -> list[list[Span]]:
    """Returns the row in columns: one line, and one below it for a rule or the text of an error that does not fit.

    Args:
        row: the row to write.
        clock: its time.
        width: the width of the terminal, in cells; at least NARROWEST.
    """
    glyph = row.glyph.text
    left = _left_text(clock, row.frame, row.exchange)
    head = [Span(left, "dim"), row.glyph, Span(" " * (_GLYPH_CELLS - len(glyph)))]
    available = max(0, width - len(left) - _GLYPH_CELLS)
    is_roomy = available >= MIN_ROOMY_CELLS and not row.problem
    # A text that needs a separate line goes below the numbers, where it has more room.
    below_spans: list[Span] = []
    problem = [Span("  "), Span(row.problem, "bad")] if row.problem else []
    if row.problem and available - len(row.problem) - 2 < _min_body_cells(row):
        below_spans, problem = [problem[1]], []
    available -= sum(cells(span.text) for span in problem)
    body, tail = _body_and_tail(row, max(0, available), is_roomy=is_roomy)
    body_width, max_width = sum(cells(span.text) for span in body), _cells_before(tail, available)
    is_unlimited = width >= UNLIMITED_WIDTH
    max_width -= UNLIMITED_WIDTH - USUAL_WIDTH if is_unlimited else 0
    error = f"  {row.error}" if row.error else ""
    # In a pipe, a message is one line: an error that would move the numbers follows them.
    error_spans = [Span(error)] if error else []
    if body_width + cells(error) <= max_width:
        body, body_width, error_spans = [*body, *error_spans], body_width + cells(error), []
    elif not is_unlimited:
        below_spans = [*below_spans, *([Span("  ")] if below_spans else []), Span(row.error)]
        error_spans = []
    gap = [Span(" " * (max(0, max_width - body_width) + 2)), Span(tail, "dim")] if tail else []
    line = fit_spans([*head, *body, *problem, *gap, *error_spans], width)[0]
    return (
        [line, [Span(" " * _ERROR_INDENT), *fit_spans(below_spans, width - _ERROR_INDENT)[0]]]
        if below_spans
        else [line]
    )


def _body_and_tail(row: ConversationRow, available: int, *, is_roomy: bool) -> tuple[list[Span], str]:
    """Returns the body, and the numbers after it, in the given number of cells.

    If there is not enough room, these are cut or dropped, in this order: the text, the columns, the size, the latency,
    the subject, and the outcome, which shows whether a call has failed.

    Args:
        row: the row.
        available: cells for both.
        is_roomy: whether columns matter more than the text.
    """
    outcome = [] if row.outcome is None else [row.outcome]
    tail = _tail(row)
    max_width = _cells_before(tail, available)
    body, body_width = fit_spans([*row.subject, *outcome, *row.text], max_width)
    if body_width < max_width or (is_roomy and body[: len(row.subject) + len(outcome)] == [*row.subject, *outcome]):
        return body, tail
    tails = [f"{row.latency:>7}  {row.size:>6}", row.latency] if row.latency else [row.size]
    tail = next((tail for tail in tails if _cells_before(tail, available) >= _min_body_cells(row)), "")
    max_width = _cells_before(tail, available)
    padding = Span("  ")
    subject = [padding if not span.text.strip() else span for span in row.subject]
    if row.outcome is not None:
        words, body_width = fit_spans(subject[:-1], max(0, max_width - cells(row.outcome.text) - cells(padding.text)))
        subject = [*words, padding] if body_width else []
    return fit_spans([*subject, *outcome, *row.text], max_width)[0], tail


def _tail(row: ConversationRow) -> str:
    """Returns the numbers at the end of a line that is wide enough."""
    return f"{row.latency:>8}  {row.size:>8}" if row.latency else row.size


def _left_text(clock: str, frame: int | None, exchange: int | None) -> str:
    """Returns the time and the numbers at the beginning of a line."""
    exchange_text = "" if exchange is None else f"{f'@{exchange}':>{_EXCHANGE_CELLS}} "
    return f"{clock:>{_TIME_CELLS}}  {'' if frame is None else frame:>{_FRAME_CELLS}} {exchange_text}"


def _cells_before(tail: str, available: int) -> int:
    """Returns how many cells the numbers at the end of a line leave for the rest."""
    return max(0, available - (len(tail) + 2 if tail else 0))


def _min_body_cells(row: ConversationRow) -> int:
    """Returns how many cells the outcome needs, together with enough of the subject to recognise it."""
    subject = min(_MIN_SUBJECT_CELLS, sum(cells(span.text) for span in row.subject if span.text.strip()))
    return subject if row.outcome is None else subject + 2 + cells(row.outcome.text)


def row_of(item: Item, width: int) -> ConversationRow:
    """Returns the row of an item; `width` decides how wide its columns are."""
    if isinstance(item, Remark):
        subject = [Span(item.text, item.role)]
        return ConversationRow(Span(item.glyph, item.role), subject, error=item.detail, exchange=item.exchange)
    if isinstance(item, LoginSummary):
        return _row_of_login(item)
    frame, size, line, latency = frame_of(item), size_of(item), line_of(item), ""
    width -= _FRAME_CELLS + 1 + (0 if frame.exchange is None else _EXCHANGE_CELLS + 1)
    # The line of the batch is above those of its messages.
    is_inside = isinstance(item, MessageContext) and item.message.index is not None
    parts = _parts(line, width - 8 if is_inside else width)
    if isinstance(item, MessageContext) and item.answered is not None:
        latency_text = ms_text(item.answered.latency_ns or 0)
        latency = latency_text if item.answered.has_exact_times else f"~{latency_text}"
    return ConversationRow(
        line.direction,
        [Span("  "), *parts.subject] if is_inside else parts.subject,
        parts.outcome,
        parts.text,
        line.problem or None,
        parts.error,
        latency,
        "" if size is None else units.size(size),
        frame.seq,
        frame.exchange,
    )


def row_of_leg(leg: LegLine, clock: str, width: int) -> ConversationRow:
    """Returns the row of a leg, which is below that of its login.

    Its name is never cut. If there is not enough room, these are cut or left out, in this order: the path, from the
    left, because paths differ at the end; the request; the status.

    Args:
        leg: the leg.
        clock: its time.
        width: the width of the terminal, in cells.
    """
    role: Role = "bad" if leg.has_failed else "dim"
    frame = leg.seq if leg.seq >= 0 else leg.request_seq
    took, has_columns = ms_text(leg.took_ns), width >= _MIN_EXCHANGES_WIDTH
    row = ConversationRow(
        Span("▲" if leg.has_failed else "·", role),
        [Span(f"  {leg.name:<{_LEG_NAME_CELLS}}" if has_columns else leg.name, role), Span("  ")],
        error=leg.description,
        # There is no size, so a narrow line has no column for it.
        latency=took if width >= USUAL_WIDTH else "",
        size=took if has_columns and width < USUAL_WIDTH else "",
        frame=frame if frame >= 0 else None,
        exchange=leg.exchange if has_columns else None,
    )
    tail_cells = len(_tail(row)) + 2 if has_columns else 0
    taken = len(_left_text(clock, row.frame, row.exchange)) + _GLYPH_CELLS + tail_cells
    room = width - taken - sum(cells(span.text) for span in row.subject)
    status = fit(leg.status, max(3, room))
    times = f"  ×{leg.times:,}" if leg.times > 1 else ""
    method, _, path = leg.request.partition(" ")
    path_cells = room - cells(f"{status}{times}  {method} ")
    request = f"  {method} {fit_end(path, path_cells)}" if path_cells >= _MIN_LEG_PATH_CELLS else ""
    return row._replace(outcome=Span(status, role), text=(Span(f"{times}{request}", role),))


def _row_of_login(login: LoginSummary) -> ConversationRow:
    """Returns the row of a login: one line if it succeeded; otherwise, its outcome may need the width of a line."""
    if login.is_bad:
        extent = f"{login.extent}, {units.duration(login.took_ns)}"
        details = "  ".join(filter(None, (login.explanation, extent, login.client)))
        return ConversationRow(Span("▲", "bad"), [Span(login.title, "bad")], error=details)
    role: Role = "dim" if login.is_unneeded else "plain"
    details = "  ".join(filter(None, (login.extent, login.client)))
    subject = [Span(f"{login.title}  ", role), Span(details, "dim")]
    return ConversationRow(Span("·", role), subject, latency=units.duration(login.took_ns))


def frame_of(item: MessageContext | Batch | UnansweredRequest) -> Frame:
    """Returns the frame of an item, or the first frame of a message that spans several."""
    if isinstance(item, Batch):
        return item.frame
    return (item.message if isinstance(item, MessageContext) else item.request).frames[0]


def line_of(item: MessageContext | Batch | UnansweredRequest) -> Line:
    """Returns the content of an item's line."""
    if isinstance(item, Batch):
        return lines.line_of_batch(item.frame, item.message_count)
    return (
        lines.line_of(item)
        if isinstance(item, MessageContext)
        else lines.line_of_ended_request(item.request, item.status)
    )


def size_of(item: MessageContext | Batch | UnansweredRequest) -> int | None:
    """Returns how many bytes an item's line is about, or None if another line shows them."""
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


def _subject_width(width: int) -> int:
    """Returns the width of the subject of a row."""
    width = USUAL_WIDTH if width > UNLIMITED_WIDTH // 2 else width
    return min(24 + max(-8, width - 80) // 4, 40)


def _subject(line: Line, width: int) -> list[Span]:
    """Returns method, id and name, padded to a column, and cut if they would push the status out of the line."""
    id_ = f" {line.id}" if line.id else ""
    max_width = max(_subject_width(width), width - 36 - _STATUS_CELLS) if line.id else None
    method = line.subject.text if max_width is None else fit(line.subject.text, max_width - cells(id_))
    name = line.name
    if name and max_width is not None:
        name = fit(name, max_width - cells(method) - cells(id_) - 1)
    name_span = Span(f"{id_}{f' {name}' if name else ''}".rstrip(), line.role)
    spans = [Span(method, line.subject.role), *([name_span] if name_span.text else [])]
    return [*spans, _padding(width, *spans)]


def _padding(width: int, *spans: Span) -> Span:
    """Returns the spaces between the subject of a row and the rest."""
    return Span(" " * (max(0, _subject_width(width) - sum(cells(span.text) for span in spans)) + 2))
