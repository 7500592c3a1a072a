"""Waterfall: draws exchanges, start-ups and densities as cells of a line, and the axis above them. Reads no file."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES, Outcome
from mcpproxy.tui.data import heat
from mcpproxy.tui.data.timelines import CallBar, Startup, cells_of
from mcpproxy.tui.rows.heat_scale import CLASSES, Limits, class_of, limit_texts
from mcpproxy.wording.blocks import BLOCKS, blocks
from mcpproxy.wording.cells import cells as width_of
from mcpproxy.wording.spans import Role, Span

STARTING_SIGN: Final = "▒"
OPENING_SIGN: Final = "▓"
RUNNING_SIGN: Final = "█"
WAITING_SIGN: Final = "╌"
ERROR_SIGN: Final = "!"
ABANDONED_SIGN: Final = "✗"


class Sign(NamedTuple):
    """A sign in a legend."""

    sign: str
    role: Role
    text: str
    short_text: str
    """Its meaning for narrow terminals, which leave out signs with an empty text."""


LEGEND: Final = (
    Sign(STARTING_SIGN, "plain", "starting", "starting"),
    Sign(OPENING_SIGN, "accent", "handshake, list", "handshake, list"),
    Sign(RUNNING_SIGN, "accent", "exchange", "exchange"),
    Sign(WAITING_SIGN, "accent", "waits for the other side", "waits"),
    Sign(f"{RUNNING_SIGN} {ERROR_SIGN}", "bad", "error", "error"),
    Sign(f"{RUNNING_SIGN} {ABANDONED_SIGN}", "bad", "abandoned", "abandoned"),
    Sign(RUNNING_SIGN, "dim", "cancelled", ""),
)


_SIGNS: Final[dict[int, tuple[str, Role]]] = {
    heat.BAD: (ERROR_SIGN, "bad"),
    heat.ABANDONED: (ABANDONED_SIGN, "bad"),
    heat.RUNNING: (WAITING_SIGN, "dim"),
    heat.NOTHING: (" ", "plain"),
}
_DOTTED_SIGNS: Final = dict(zip((sign for sign, _ in CLASSES), "⡀⣀⣤⣶⣿", strict=True))
"""By the sign of a class: the same height in dots, for a cell in which a few calls failed."""
_BAD_BLOCKS: Final = str.maketrans(BLOCKS, "⣀⣀⣤⣤⣶⣶⣿⣿")
"""By block: about the same height in dots, for a cell of a folded server in which a call failed."""
_OPENING_METHODS: Final = frozenset(("initialize", "server/discover", "tools/list"))
_BAD_OUTCOMES: Final = ERRORS | FAILURES

Window = tuple[int, int]
"""The start and the end of the period that is drawn, on the clock of the timelines."""
Cell = tuple[str, Role]


def bar_cells(bar: CallBar, window: Window, cells: int, last_ns: int) -> list[Span]:
    """The cells of an exchange.

    Args:
        bar: the exchange.
        window: the period that is drawn.
        cells: the number of cells.
        last_ns: where the bar stops if the exchange has not ended.
    """
    role: Role = (
        "bad"
        if bar.outcome in _BAD_OUTCOMES
        else "dim"
        if bar.outcome in (Outcome.CANCELLED, Outcome.NOT_RECORDED)
        else "accent"
    )
    sign = OPENING_SIGN if bar.kind.method in _OPENING_METHODS else RUNNING_SIGN
    end_ns = last_ns if bar.end_ns is None else bar.end_ns
    line_cells: list[Cell] = [(" ", "plain")] * cells
    for cell in cells_of(bar.start_ns, end_ns, window, cells):
        line_cells[cell] = (sign, role)
    low, high = window
    for start, stop in bar.waits:
        for cell in cells_of(start, stop, window, cells):
            # A wait fills only the cells whose middle it covers, so that a short wait does not hide work.
            if start <= low + (high - low) * (2 * cell + 1) // (2 * cells) <= stop:
                line_cells[cell] = (WAITING_SIGN, role)
    return spans_of(line_cells)


def server_cells(
    counts: Sequence[int], startup: Startup, window: Window, last_ns: int, bad_cells: Collection[int] = ()
) -> list[Span]:
    """The cells of a server: its start-up, and the number of exchanges that began over time.

    Args:
        counts: the number of exchanges that began in each cell.
        startup: when the server started.
        window: the period that is drawn.
        last_ns: where the start-up stops if it has not ended.
        bad_cells: the cells in which a call began that failed.
    """
    line_cells: list[Cell] = [(sign, "accent") for sign in blocks(counts)]
    for cell in bad_cells:
        line_cells[cell] = (line_cells[cell][0].translate(_BAD_BLOCKS), "bad")
    if startup.spawned_ns is not None:
        awake_ns = last_ns if startup.awake_ns is None else startup.awake_ns
        for cell in cells_of(startup.spawned_ns, awake_ns, window, len(counts)):
            if not counts[cell]:
                line_cells[cell] = (STARTING_SIGN, "plain")
    return spans_of(line_cells)


def heat_cells(row: heat.HeatRow, limits: Limits) -> list[Span]:
    """The cells of a kind of request in a heat map, with the limits of its scale."""
    line_cells = [_SIGNS[ns] if ns < 0 else class_of(ns, limits) for ns in row.worst_ns]
    for cell in row.tinged_cells:
        sign = line_cells[cell][0]
        line_cells[cell] = (_DOTTED_SIGNS.get(sign, sign), "warm")
    return spans_of(line_cells)


def heat_legend(limits: Limits) -> Sequence[Sign]:
    """The signs of a heat map, as in `LEGEND`."""
    scale = zip(CLASSES, limit_texts(limits), strict=True)
    return (
        *(Sign(sign, role, text, text) for (sign, role), (_, text) in scale),
        Sign(_DOTTED_SIGNS["▄"], "warm", "some errors", "errors"),
        Sign(ERROR_SIGN, "bad", "≥25% errors", "≥25%"),
        Sign(ABANDONED_SIGN, "bad", "abandoned", "abandoned"),
        Sign(WAITING_SIGN, "dim", "waiting", ""),
        Sign("+", "dim", "zoom in", ""),
    )


def spans_of(cells: Iterable[Cell]) -> list[Span]:
    """Returns cells as spans; adjacent cells with the same role share one."""
    return [Span("".join(sign for sign, _ in group), role) for role, group in groupby(cells, key=lambda cell: cell[1])]


def legend(signs: Sequence[Sign], width: int) -> list[Span]:
    """Returns a line that explains signs, each as it is drawn; with fewer or shorter texts if it would be too wide.

    Args:
        signs: `LEGEND`, or the result of `heat_legend`.
        width: the width of the line, in cells.
    """
    main_signs = [sign for sign in signs if sign.short_text]
    spans: list[Span] = []
    for gap, line in (
        ("   ", [(sign, sign.text) for sign in signs]),
        ("  ", [(sign, sign.text) for sign in main_signs]),
        ("  ", [(sign, sign.short_text) for sign in main_signs]),
    ):
        spans = []
        for sign, text in line:
            spans += [Span(gap if spans else ""), Span(sign.sign, sign.role), Span(f" {text}", "dim")]
        if sum(width_of(span.text) for span in spans) <= width:
            break
    return spans


def axis(window: Window, zero_ns: int, cells: int) -> str:
    """The axis: times at round distances, each above its cell."""
    low, high = window[0] - zero_ns, window[1] - zero_ns
    if high <= low or cells < 1:
        return ""
    for step in _steps():
        longest = max(len(time_text(low, step)), len(time_text(high, step)))
        if step * cells // (high - low) > longest:
            return _ticks(low, high, step, cells)
    return ""


def _steps() -> Iterator[int]:
    """Yields distances in nanoseconds, ascending: decimal fractions of a second, seconds, minutes, hours and days."""
    yield from (factor * 10**power for power in range(3, 10) for factor in (1, 2, 5))
    yield from (factor * 10**9 for factor in (10, 20, 30, 60, 120, 300, 600, 1200, 1800))
    yield from (factor * 3600 * 10**9 for factor in (1, 2, 3, 6, 12))
    yield from (86400 * 10**9 << power for power in range(80))


def _ticks(low: int, high: int, step: int, cells: int) -> str:
    line = ""
    tick = -(-low // step) * step
    while tick < high:
        position, text = (tick - low) * cells // (high - low), time_text(tick, step)
        if position + len(text) <= cells:
            line = line.ljust(position) + text
        tick += step
    return line


def time_text(t_ns: int, step_ns: int) -> str:
    """Returns a time, as precise as the step requires: `0s`, `1.50s`, `2m05s`, `3h00m`."""
    digits = next((count for count in range(7) if step_ns % 10 ** (9 - count) == 0), 6)
    duration_s, sign = abs(t_ns) / 1e9, "-" if t_ns < 0 else ""
    if digits or duration_s < 60:
        return f"{sign}{duration_s:.{digits}f}s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{sign}{minutes}m{seconds:02d}s"
    return f"{sign}{minutes // 60}h{minutes % 60:02d}m" + (f"{seconds:02d}s" if seconds else "")
