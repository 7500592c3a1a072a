"""The title of the traffic screen: name and state of the capture, rows shown, errors, and the two sides."""

from typing import Final, NamedTuple

from analysis import clock
from mcpproxy.tui.data.counted_scan import CountedScan
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.finding_lines import progress_text
from mcpproxy.tui.screens.longest_wait import waiting_pieces
from mcpproxy.tui.widgets.clickable_line import Piece
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.names import peer_text, revisions_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import brief_duration

FOLLOWING: Final = "● following"
PAUSED: Final = "‖ paused"
KILLED: Final = "✝ killed"
MIN_SHOWN_BACKLOG_ROWS: Final = 1000
"""The title shows the progress if more rows than this are not understood yet."""
_MIN_NAME_CELLS: Final = 12
"""The minimum room for each name, in cells."""
_MAX_REVISIONS_CELLS: Final = 22
"""The maximum width of the revisions, in cells."""
_BEFORE: Final = "  "
_BETWEEN: Final = " → "


class TitleState(NamedTuple):
    """The state of the screen, as far as the title shows it."""

    new_rows: int | None
    """The number of rows since following was paused; None while the end is followed."""
    scan: CountedScan | None
    """The filter that selects the rows; None if all are shown."""
    is_searching: bool
    """Whether the filter may select more."""
    record_choice: str
    """Which records are shown with the messages; empty for the default."""
    order: str
    """The order of the rows; empty for the order of the capture."""
    export_progress: str
    """The progress of an export; empty if none is running."""
    compared: str = ""
    """The row that is marked for a comparison, as `= 9`; empty if there is none."""


def title_spans(reading: Reading, state: TitleState) -> list[Span | Piece]:
    """The part of the title that is always shown."""
    scan = state.scan
    spans: list[Span | Piece] = [Span(f"  {state.compared}", "accent")] if state.compared else []
    spans += [*_state_spans(reading, state), *waiting_pieces_of(reading)]
    # An order is named before a filter, which may be too long for the line.
    spans += [Span(f"  {state.order}", "accent")] if state.order else []
    spans += _count_spans(reading) if scan is None else _match_spans(reading, scan, is_searching=state.is_searching)
    spans += [Span(f"  {state.record_choice}", "accent")] if state.record_choice else []
    if reading.findings.trouble:
        spans.append(Span(f"  {'rules' if reading.has_ended else 'analysis'} stopped: F", "bad"))
    if not reading.has_ended and reading.interpreted_count + MIN_SHOWN_BACKLOG_ROWS < len(reading.index):
        spans.append(Span(f"  analysed {int(100 * reading.progress)}%", "dim"))
    elif (
        scan is None
        and not reading.findings.trouble
        and reading.findings.checked_count + MIN_SHOWN_BACKLOG_ROWS < reading.interpreted_count
    ):
        spans.append(Span(f"  {progress_text(reading.findings, len(reading.index))}", "dim"))
    if state.export_progress:
        spans.append(Span(f"  {state.export_progress}", "accent"))
    return spans


def _state_spans(reading: Reading, state: TitleState) -> list[Span]:
    """Whether the capture is live and followed, or how it ended."""
    if reading.is_live:
        if state.new_rows is None:
            return [Span(f"  {FOLLOWING}", "accent")]
        if not reading.index.tail.is_at_end:
            return []
        new_text = f" · {state.new_rows:,} new" if state.new_rows else ""
        return [Span(f"  {PAUSED}{new_text} · f", "accent" if new_text else "dim")]
    if not reading.has_ended:
        return []
    if reading.is_killed:
        return [Span(f"  {KILLED}", "bad")]
    text = reading.end.text if reading.end is not None else "ended"
    text = text.removeprefix("the server ").removeprefix("server ")
    role: Role = "bad" if reading.bad_end else "dim"
    return [Span(f"  {'✝' if reading.bad_end else '○'} {text}", role)]


def waiting_pieces_of(reading: Reading) -> list[Piece]:
    """How many calls of a live capture wait, and how long the oldest has waited."""
    oldest = reading.waiting.oldest if reading.is_live else None
    waited_ns = None if oldest is None else reading.waited_ns(oldest)
    return waiting_pieces(reading.waiting.count, waited_ns or 0, "waiting")


def _match_spans(reading: Reading, scan: CountedScan, *, is_searching: bool) -> list[Span]:
    """The filter, and how many frames or exchanges it has selected so far."""
    ellipsis = " …" if is_searching else ""
    if scan.calls is not None:
        counts = f"{len(scan.calls):,} of {count_text(len(reading.calls), 'exchange')}"
    else:
        counts = f"{len(scan.rows) - scan.login_row_count:,} of {count_text(scan.frame_count, 'frame')}"
        counts += f" and {count_text(scan.login_count, 'login')}" if scan.login_count else ""
    spans = [Span(f"  {scan.row_filter.text}", "accent"), Span(f"  {counts}{ellipsis}")]
    if scan.row_filter.needs_findings and not reading.findings.has_caught_up:
        spans.append(Span(f"  {progress_text(reading.findings, len(reading.index))}", "dim"))
    return spans


def filling_spans(reading: Reading, scan: CountedScan | None, session: int | None, room: int) -> list[Span]:
    """The part of the title that is shown as far as there is room: what is wrong with the selected rows, and the sides.

    Args:
        reading: the capture.
        scan: the filter that selects the rows; None if all are shown.
        session: the session whose sides are shown; None for those of the capture.
        room: the cells that are left.
    """
    spans: list[Span] = []
    for span in [] if scan is None else _wrong_spans(scan):
        if cells(span.text) <= room:
            spans.append(span)
            room -= cells(span.text)
    return [*spans, *peer_spans(reading, session, room)]


def _wrong_spans(scan: CountedScan) -> list[Span]:
    """How many of the selected rows are errors, and how many have findings."""
    spans: list[Span] = []
    if scan.error_count and "has:error" not in scan.row_filter.terms:
        spans.append(Span(f"  {count_text(scan.error_count, 'error')}", "bad"))
    if scan.findings.row_count:
        sign, role = _sign_of_findings(has_errors=scan.findings.has_errors)
        spans.append(Span(f"  {sign} {scan.findings.row_count:,} with findings", role))
    return spans


def _count_spans(reading: Reading) -> list[Span]:
    """The number of frames, and of the findings in them so far."""
    spans, findings = (
        [Span(f"  {count_text(reading.index.frame_count, 'frame')}{_lasted_text(reading)}", "dim")],
        reading.findings,
    )
    if findings.tally.violations:
        sign, role = _sign_of_findings(has_errors=findings.tally.errors > 0)
        ellipsis = "" if findings.has_caught_up else " …"
        spans.append(Span(f"  {sign} {count_text(findings.tally.violations, 'finding')}{ellipsis}", role))
    return spans


def _sign_of_findings(*, has_errors: bool) -> tuple[str, Role]:
    return ("✗", "bad") if has_errors else ("!", "warm")


def _lasted_text(reading: Reading) -> str:
    """How long a session that is being recorded has lasted, for use after the number of its frames."""
    wall_ns = reading.conversation.capture.wall_ns
    if not reading.is_live or wall_ns is None:
        return ""
    return f" in {brief_duration(clock.duration_ns(reading.index.last_ns, wall_ns, is_live=True))}"


def peer_spans(reading: Reading, session: int | None, room: int) -> list[Span]:
    """The two sides of a session, or of the capture, and their revision, in at most `room` cells.

    Long names are cut. If there is too little room even for that, the sides are left out.
    """
    sides = reading.conversation.peers(session)
    revision = f" · {fit(revisions_text(sides.revisions), _MAX_REVISIONS_CELLS)}" if sides.revisions else ""
    cells_left = room - cells(revision)
    names = [peer_text(peer) if peer else "?" for peer in (sides.client, sides.server)]
    spans = [Span(revision)] if cells_left >= 0 else []
    if sides.client is None and sides.server is None:
        return spans
    cells_left -= cells(_BEFORE + _BETWEEN)
    if sum(min(_MIN_NAME_CELLS, cells(name)) for name in names) > cells_left:
        return spans
    # The longer name gets the cells that the shorter one leaves.
    client = fit(names[0], max(cells_left // 2, cells_left - cells(names[1])))
    server = fit(names[1], cells_left - cells(client))
    return [Span(f"{_BEFORE}{client}{_BETWEEN}{server}"), *spans]
