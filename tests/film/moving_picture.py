"""Draws an asciicast as a moving SVG: a strip of screens, of which one is in sight at a time.

The picture needs no script and no font, repeats for ever, and stands still for viewers who asked for less motion. Lines
that several screens share are drawn once.
"""

import html
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import pyte
from pyte.screens import Char

from tests.film.terminal_text import without_queries

FRAME_S: Final = 0.15
"""The least time for which a screen is in sight, in seconds."""
LAST_FRAME_S: Final = 3.0
"""How long the last screen is in sight before the picture begins again, in seconds."""
CELL_WIDTH: Final = 8.4
CELL_HEIGHT: Final = 18
FONT_SIZE: Final = 14
MARGIN: Final = 12
FOREGROUND: Final = "#d8dce4"
BACKGROUND: Final = "#16181d"
_NAMED_COLOURS: Final = {
    "black": "#23262e", "red": "#ff6b6b", "green": "#98c379", "brown": "#e5c07b", "blue": "#5fafd7",
    "magenta": "#c792ea", "cyan": "#56b6c2", "white": "#d8dce4", "default": "",
}  # fmt: skip


class Screen(NamedTuple):
    """A screen, and when it comes into sight."""

    start_s: float
    lines: tuple[str, ...]
    """Its lines, drawn."""


def screens(output: Sequence[tuple[float, str]], size: tuple[int, int]) -> list[Screen]:
    """Returns the screens that a viewer sees, each with the time at which it comes into sight, in seconds.

    Args:
        output: pieces of output, each with its time.
        size: columns and rows of the terminal.
    """
    terminal = pyte.Screen(*size)
    stream = pyte.Stream(terminal)
    found: list[Screen] = []
    drawn = [""] * size[1]
    for number, (seconds, text) in enumerate(output):
        stream.feed(without_queries(text))
        is_brief = number + 1 < len(output) and output[number + 1][0] - seconds < FRAME_S
        if is_brief and (not found or seconds - found[-1].start_s < FRAME_S):
            continue
        for row in terminal.dirty:
            drawn[row] = _line([terminal.buffer[row][column] for column in range(size[0])])
        terminal.dirty.clear()
        if not found or found[-1].lines != tuple(drawn):
            found.append(Screen(seconds, tuple(drawn)))
    return found


def svg(found: Sequence[Screen], size: tuple[int, int], title: str, still_s: float) -> str:
    """Returns the moving picture.

    Args:
        found: its screens.
        size: columns and rows of the terminal.
        title: what it shows, for viewers who cannot see it.
        still_s: the time of the screen for viewers who asked for less motion, in seconds.
    """
    width, height = size[0] * CELL_WIDTH + 2 * MARGIN, size[1] * CELL_HEIGHT + 2 * MARGIN
    start_s, duration_s = found[0].start_s, found[-1].start_s - found[0].start_s + LAST_FRAME_S
    names: dict[str, str] = {}
    parts: list[str] = []
    for number, screen in enumerate(found):
        uses = []
        for row, line in enumerate(screen.lines):
            if line:
                name = names.setdefault(line, f"l{len(names)}")
                uses.append(f'<use href="#{name}" y="{row * CELL_HEIGHT}"/>')
        parts.append(f'<g transform="translate(0 {number * height:g})">{"".join(uses)}</g>')
    steps = "".join(
        f"{100 * (screen.start_s - start_s) / duration_s:.3f}%{{transform:translateY({-number * height:g}px)}}"
        for number, screen in enumerate(found)
    )
    still = max((number for number, screen in enumerate(found) if screen.start_s <= still_s), default=0)
    lines = "".join(f'<g id="{name}">{line}</g>' for line, name in names.items())
    label = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">\n'
        f"<title>{label}</title>\n<style>"
        f"text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"white-space:pre;fill:{FOREGROUND}}}.b{{font-weight:bold}}"
        f"@keyframes film{{{steps}100%{{transform:translateY({-(len(found) - 1) * height:g}px)}}}}"
        f"#film{{animation:film {duration_s:.2f}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateY({-still * height:g}px)}}}}"
        f"</style>\n<defs>{lines}</defs>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{size[0] * CELL_WIDTH:g}" height="{size[1] * CELL_HEIGHT}">'
        f'<g id="film">\n' + "\n".join(parts) + "\n</g></svg></svg>\n"
    )


def _line(cells: Sequence[Char]) -> str:
    """Returns the elements of a line, for a place at the top left."""
    parts: list[str] = []
    column = 0
    for style, run in groupby(cells, key=_style):
        text = "".join(cell.data for cell in run if cell.data)
        length = _cells_of(text)
        parts += _run(column, text, length, *style)
        column += length
    return "".join(parts)


def _cells_of(text: str) -> int:
    # pyte leaves an empty cell after a wide character.
    return sum(max(0, pyte.screens.wcwidth(character)) for character in text)


def _run(column: int, text: str, length: int, colour: str, background: str, is_bold: bool) -> Iterator[str]:
    x, width = column * CELL_WIDTH, length * CELL_WIDTH
    if background:
        yield f'<rect x="{x:g}" width="{width:g}" height="{CELL_HEIGHT}" fill="{background}"/>'
    if text.strip():
        fill = f' style="fill:{colour}"' if colour else ""
        bold = ' class="b"' if is_bold else ""
        length_text = f' textLength="{width:g}"'
        yield f'<text x="{x:g}" y="{CELL_HEIGHT - 4}"{bold}{fill}{length_text}>{html.escape(text, quote=False)}</text>'


def _style(cell: Char) -> tuple[str, str, bool]:
    colour, background = _colour(cell.fg), _colour(cell.bg)
    if cell.reverse:
        colour, background = background or BACKGROUND, colour or FOREGROUND
    return "" if colour == FOREGROUND else colour, "" if background == BACKGROUND else background, cell.bold


def _colour(name: str) -> str:
    bright = name.removeprefix("bright")
    return _NAMED_COLOURS.get(bright, f"#{name}")
