"""Drawn cells: what the terminal shows, so that only cells that change are sent to it.

Textual draws whole lines again. While the end of a capture is followed, all lines of a table change, but most of their
cells do not: neighbouring rows have the same words and colours in the same columns. Over a network, that is most of the
cost of following.

A line with a character about whose width terminals disagree is sent as a whole, as all cells after it may be elsewhere
than expected. When Textual draws the whole screen, for example another one or after a change of size, all of it is
sent: this also repairs what another program has written over it.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, count, groupby, repeat
from operator import itemgetter, ne
from typing import Final

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from mcpproxy.wording.cells import is_narrow

MAX_GAP_CELLS: Final = 8
"""The maximum number of unchanged cells that are sent again because moving over them takes as many bytes."""
Cell = tuple[str, Style | None]
"""A character and its style."""


class DrawnCells:
    """The cells of the terminal, as far as they are known."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self._lines: dict[int, list[Cell | None]] = {}
        """The cells of each line of the screen, from the left; None for a cell that is not known for sure."""

    def changes(self, update: CompositorUpdate) -> CompositorUpdate:
        """Returns what has to be sent for an update of Textual's: the same or, for a part of the screen, less."""
        if isinstance(update, LayoutUpdate):
            return _WholeScreen(self, update)
        return _ChangedCells(self, update) if isinstance(update, ChopsUpdate) else update

    def forget(self) -> None:
        """Forget everything, as all of the screen is drawn again."""
        self._lines.clear()

    def exchange(self, y: int, x: int, cells: Sequence[Cell | None]) -> Sequence[Cell | None]:
        """Record what is drawn in a part of a line; returns what was there.

        Args:
            y: the line.
            x: the first cell of the part.
            cells: the cells; None for one that is not known for sure.
        """
        line, end = self._lines.setdefault(y, []), x + len(cells)
        line += [None] * (end - len(line))
        former, line[x:end] = line[x:end], cells
        return former


class _WholeScreen(CompositorUpdate):
    """An update of the whole screen."""

    def __init__(self, drawn: DrawnCells, update: LayoutUpdate) -> None:
        self._drawn, self._update = drawn, update

    def render_segments(self, console: Console) -> str:
        self._drawn.forget()
        return self._update.render_segments(console)


class _ChangedCells(CompositorUpdate):
    """An update of parts of the screen."""

    def __init__(self, drawn: DrawnCells, update: ChopsUpdate) -> None:
        self._drawn, self._update = drawn, update

    def render_segments(self, console: Console) -> str:
        """Returns the text and the control sequences to send; the cells are recorded as drawn."""
        pen = _Pen(console)
        for y, first, end in self._update.spans:
            for part_end, (x, strip) in zip(self._update.chop_ends[y], self._update.chops[y].items(), strict=False):
                if strip is not None and x <= end and part_end > first:
                    self._draw_part(pen, y, x, strip)
        return pen.text()

    def _draw_part(self, pen: "_Pen", y: int, x: int, strip: Strip) -> None:
        """Draw the cells of a part of a line that have changed."""
        cells = _cells_of(strip)
        if cells is None:
            self._drawn.exchange(y, x, [None] * strip.cell_length)
            pen.draw_strip(x, y, strip)
            return
        for start, end in _changed_ranges(self._drawn.exchange(y, x, cells), cells):
            pen.draw(x + start, y, cells[start:end])


class _Pen:
    """Text and control sequences that draw cells."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pieces: list[str] = []
        self._end = ""
        """What ends the current style."""
        self._start = ""
        """What began it."""

    def draw(self, x: int, y: int, cells: Sequence[Cell]) -> None:
        """Draw cells from a place on; the style of the cells drawn before is used on if it is the same."""
        self._pieces.append(f"\x1b[{y + 1};{x + 1}H")
        color_system = self._console._color_system or ColorSystem.TRUECOLOR
        for style, group in groupby(cells, itemgetter(1)):
            start, end = ("", "") if style is None else _codes(style, color_system)
            if start != self._start:
                self._pieces += self._end, start
                self._start, self._end = start, end
            self._pieces += (character for character, _ in group)

    def draw_strip(self, x: int, y: int, strip: Strip) -> None:
        """Draw a part of a line as a whole."""
        self._pieces += self._end, f"\x1b[{y + 1};{x + 1}H", strip.render(self._console)
        self._start = self._end = ""

    def text(self) -> str:
        """Returns everything that was drawn."""
        return "".join([*self._pieces, self._end])


@lru_cache(1024)
def _codes(style: Style, color_system: ColorSystem) -> tuple[str, str]:
    """Returns the sequences that begin and end a style."""
    start, _, end = Strip.render_style(style, "\0", color_system).partition("\0")
    return start, end


def _cells_of(strip: Strip) -> list[Cell] | None:
    """Returns the cells of a part of a line, or None if it has a character that may not take exactly one."""
    cells: list[Cell] = []
    for text, style, _ in strip:
        if not is_narrow(text):
            return None
        cells.extend(zip(text, repeat(style)))
    return cells


def _changed_ranges(former: Sequence[Cell | None], cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Returns the first cell of each range that has changed, and the one after its last; near ranges are joined."""
    ranges: list[tuple[int, int]] = []
    for position in compress(count(), map(ne, former, cells)):
        if ranges and position - ranges[-1][1] <= MAX_GAP_CELLS:
            ranges[-1] = ranges[-1][0], position + 1
        else:
            ranges.append((position, position + 1))
    return ranges
