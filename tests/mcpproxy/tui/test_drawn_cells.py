"""What is sent to the terminal: only cells that changed, and after each update, the terminal shows what it should."""

import random
import re

import pyte
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from mcpproxy.tui.drawn_cells import DrawnCells
from mcpproxy.wording.cells import cells

WIDTH, HEIGHT = 24, 3
CONSOLE = Console(color_system="truecolor", force_terminal=True)
STYLES = [Style(color="red", bgcolor="black"), Style(color="blue", bgcolor="black", bold=True)]


def strip(text: str, seed: int = 0) -> Strip:
    """A line of this text, in one style or, with a seed, in two."""
    padded = text + " " * (WIDTH - cells(text))
    cut = random.Random(seed).randrange(1, 9) if seed else 0
    return Strip([Segment(padded[:cut], STYLES[1]), Segment(padded[cut:], STYLES[0])])


class Shown:
    """A terminal, and what was sent to it."""

    def __init__(self) -> None:
        self.drawn = DrawnCells()
        self.terminal = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.terminal)
        self.sent = ""

    def send(self, update: CompositorUpdate) -> None:
        self.sent = self.drawn.changes(update).render_segments(CONSOLE)
        self.stream.feed(self.sent)

    def line(self, y: int, line: Strip) -> str:
        """Draw a line; returns the text that was sent, without control sequences."""
        chops = [{0: line if row == y else None} for row in range(HEIGHT)]
        self.send(ChopsUpdate(chops, [(y, 0, WIDTH)], [[WIDTH]] * HEIGHT))
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.sent)

    def cells(self, y: int) -> list[tuple[str, str, bool]]:
        return [(cell.data, cell.fg, cell.bold) for cell in (self.terminal.buffer[y][x] for x in range(WIDTH))]


def test_only_what_changed_is_sent() -> None:
    shown = Shown()
    assert shown.line(1, strip("search  1  +0.001 ok")).startswith("search")
    assert shown.line(1, strip("search  2  +0.001 ok")) == "2"
    assert shown.line(1, strip("search  2  +0.001 ok")) == ""
    assert shown.line(1, strip("search  3  +0.004 ok")) == "3  +0.004", "a short gap costs less than a movement"
    assert shown.line(0, strip("search  3  +0.004 ok")).startswith("search"), "another line"
    assert shown.terminal.display[1].rstrip() == "search  3  +0.004 ok"


def test_a_change_of_style_is_a_change() -> None:
    shown = Shown()
    shown.line(0, strip("text"))
    assert shown.line(0, strip("text", seed=3)) != ""
    assert any(bold for _, _, bold in shown.cells(0))


def test_a_line_whose_width_is_not_certain_is_sent_as_a_whole() -> None:
    shown = Shown()
    for text in ("語 a", "e\u0301", "\U0001f468\u200d\U0001f469 b", "● c"):
        shown.line(0, strip(text))
        assert shown.line(0, strip(text)).rstrip() == text
    assert shown.line(0, strip("plain")).rstrip() == "plain", "also the first time after that"


def test_the_whole_screen_is_sent_as_a_whole_and_nothing_is_known_afterwards() -> None:
    shown = Shown()
    shown.line(0, strip("plain"))
    whole = LayoutUpdate([[strip("plain")]] * HEIGHT, Region(0, 0, WIDTH, HEIGHT))
    shown.send(whole)
    assert shown.sent == whole.render_segments(CONSOLE)
    assert shown.line(0, strip("plain")).rstrip() == "plain"


def test_parts_of_a_line_may_begin_anywhere() -> None:
    shown = Shown()
    line = strip("left part, right part")
    left, right = line.divide([10, WIDTH])
    shown.line(0, line)
    for other in ("LEFT part, right part", "left part, right PART"):
        parts = strip(other).divide([10, WIDTH])
        chops = [{0: parts[0], 10: parts[1]}, {}, {}]
        shown.send(ChopsUpdate(chops, [(0, 0, WIDTH)], [[10, WIDTH], [WIDTH], [WIDTH]]))
        assert shown.terminal.display[0].rstrip() == other
    # Only the part that the update is about is drawn.
    chops = [{0: left, 10: right}, {}, {}]
    shown.send(ChopsUpdate(chops, [(0, 12, WIDTH)], [[10, WIDTH], [WIDTH], [WIDTH]]))
    assert shown.terminal.display[0].rstrip() == "left part, right part"


def test_whatever_is_drawn_the_terminal_shows_it() -> None:
    chance, shown, fresh = random.Random(1), Shown(), Shown()
    for _ in range(400):
        text = "".join(chance.choices(["a", "b", " ", "→", "語", "é", "1", "          "], k=8))[: WIDTH // 2]
        y, line = chance.randrange(HEIGHT), strip(text, chance.randrange(3))
        shown.line(y, line)
        fresh.drawn.forget()
        fresh.line(y, line)
        assert shown.cells(y) == fresh.cells(y)
