"""Waterfall: exchanges, starts and densities as cells of a line, and the axis above them. Reads no file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from analysis.conversation.call import ERRORS, FAILURES, Outcome
from mcpproxy.tui.data import heat
from mcpproxy.tui.data.timelines import Bar, Startup, cells_of
from mcpproxy.wording.blocks import blocks
from mcpproxy.wording.cells import cells as width_of
from mcpproxy.wording.spans import Role, Span

STARTING: Final = "▒"
OPENING: Final = "▓"
RUNNING: Final = "█"
WAITING: Final = "░"
ERROR: Final = "!"
ABANDONED: Final = "✗"
LEGEND: Final = (
    (STARTING, "starting", "starting"),
    (OPENING, "handshake, list", "handshake, list"),
    (RUNNING, "exchange", "exchange"),
    (WAITING, "waits for the other side", "waits"),
    (ERROR, "error", "error"),
    (ABANDONED, "abandoned", "abandoned"),
)
"""Signs with their meaning, and a shorter text for narrow terminals, where a sign with an empty text is left out.
"""

HEAT: Final[tuple[tuple[int, str, Role], ...]] = (
    (1_000_000, "▁", "dim"),
    (10_000_000, "▂", "dim"),
    (100_000_000, "▄", "accent"),
    (1_000_000_000, "▆", "accent"),
    (1 << 63, "█", "plain"),
)
"""The classes of latencies: the upper limit in nanoseconds, and how cells of the class are drawn."""
HEAT_LEGEND: Final = (
    *((sign, text, text) for sign, text in zip("▁▂▄▆█", ("<1ms", "<10ms", "<100ms", "<1s", "≥1s"), strict=True)),
    *LEGEND[-2:],
    (WAITING, "waiting", "waiting"),
    ("+", "zoom in", ""),
)

_SIGNS: Final[dict[int, tuple[str, Role]]] = {
    heat.BAD: (ERROR, "bad"),
    heat.ABANDONED: (ABANDONED, "bad"),
    heat.RUNNING: (WAITING, "dim"),
    heat.NOTHING: (" ", "plain"),
}
_OPENING: Final = frozenset(("initialize", "server/discover", "tools/list"))
_BAD: Final = ERRORS | FAILURES

Window = tuple[int, int]
"""The stretch that is drawn, on the clock of the timelines."""
Cell = tuple[str, Role]


def bar_cells(bar: Bar, window: Window, cells: int, last_ns: int) -> list[Span]:
    """The cells of an exchange.

    Args:
        bar: the exchange.
        window: the stretch that is drawn.
        cells: the number of cells.
        last_ns: where the bar stops if the exchange has not ended.
    """
    role: Role = (
        "bad"
        if bar.outcome in _BAD
        else "dim"
        if bar.outcome in (Outcome.CANCELLED, Outcome.NOT_RECORDED)
        else "accent"
    )
    sign = OPENING if bar.call.method in _OPENING else RUNNING
    end = last_ns if bar.end_ns is None else bar.end_ns
    drawn: list[Cell] = [(" ", "plain")] * cells
    for cell in cells_of(bar.start_ns, end, window, cells):
        drawn[cell] = (sign, role)
    low, high = window
    for start, stop in bar.waits:
        for cell in cells_of(start, stop, window, cells):
            # A wait fills the cells whose middle it covers, so that a short wait hides no work.
            if start <= low + (high - low) * (2 * cell + 1) // (2 * cells) <= stop:
                drawn[cell] = (WAITING, role)
    return spans_of(drawn)


def server_cells(counts: Sequence[int], startup: Startup, window: Window, last_ns: int) -> list[Span]:
    """The cells of a server: its start, and the number of exchanges that began over time.

    Args:
        counts: by cell, how many exchanges began.
        startup: when the server started.
        window: the stretch that is drawn.
        last_ns: where the start stops if it has not ended.
    """
    drawn: list[Cell] = [(sign, "accent") for sign in blocks(counts)]
    if startup.spawned_ns is not None:
        awake = last_ns if startup.awake_ns is None else startup.awake_ns
        for cell in cells_of(startup.spawned_ns, awake, window, len(counts)):
            if not counts[cell]:
                drawn[cell] = (STARTING, "plain")
    return spans_of(drawn)


def heat_cells(worst_ns: Sequence[int]) -> list[Span]:
    """The cells of a kind of request in a heat map."""
    return spans_of(_heat_cell(ns) for ns in worst_ns)


def _heat_cell(ns: int) -> Cell:
    if ns < 0:
        return _SIGNS[ns]
    return next(((sign, role) for limit, sign, role in HEAT if ns < limit), (RUNNING, "plain"))


def spans_of(cells: Iterable[Cell]) -> list[Span]:
    """Cells as spans, as few as possible."""
    return [Span("".join(sign for sign, _ in group), role) for role, group in groupby(cells, key=lambda cell: cell[1])]


def legend(signs: Sequence[tuple[str, str, str]], width: int) -> str:
    """A line with the meaning of signs, in short if there is less room.

    Args:
        signs: `LEGEND` or `HEAT_LEGEND`.
        width: the width of the line, in cells.
    """
    line = "   ".join(f"{sign} {text}" for sign, text, _ in signs)
    return line if width_of(line) <= width else "  ".join(f"{sign} {text}" for sign, _, text in signs if text)


def axis(window: Window, zero_ns: int, cells: int) -> str:
    """The axis: times at round distances, each above its cell."""
    low, high = window[0] - zero_ns, window[1] - zero_ns
    if high <= low or cells < 1:
        return ""
    for step in _steps():
        longest = max(len(moment(low, step)), len(moment(high, step)))
        if step * cells // (high - low) > longest:
            return _ticks(low, high, step, cells)
    return ""


def _steps() -> Iterator[int]:
    """Distances in nanoseconds: 1, 2 and 5 of any power of ten of a second, then minutes, hours and days."""
    yield from (factor * 10**power for power in range(3, 10) for factor in (1, 2, 5))
    yield from (factor * 10**9 for factor in (10, 20, 30, 60, 120, 300, 600, 1200, 1800))
    yield from (factor * 3600 * 10**9 for factor in (1, 2, 3, 6, 12))
    yield from (86400 * 10**9 << power for power in range(80))


def _ticks(low: int, high: int, step: int, cells: int) -> str:
    line = ""
    tick = -(-low // step) * step
    while tick < high:
        at, text = (tick - low) * cells // (high - low), moment(tick, step)
        if at + len(text) <= cells:
            line = line.ljust(at) + text
        tick += step
    return line


def moment(t_ns: int, step_ns: int) -> str:
    """A time, as precise as the step requires: `0s`, `1.50s`, `2m05s`, `3h00m`."""
    digits = next((count for count in range(7) if step_ns % 10 ** (9 - count) == 0), 6)
    seconds, sign = abs(t_ns) / 1e9, "-" if t_ns < 0 else ""
    if digits or seconds < 60:
        return f"{sign}{seconds:.{digits}f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{sign}{minutes}m{rest:02d}s"
    return f"{sign}{minutes // 60}h{minutes % 60:02d}m" + (f"{rest:02d}s" if rest else "")
