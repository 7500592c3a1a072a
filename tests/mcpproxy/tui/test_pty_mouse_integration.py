"""On a real terminal: the wheel, a click and a drag work on everything that looks as if they did."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcpproxy.tui.stage import captured, conversation, timed
from tests.mcpproxy.tui.terminals import Terminal, terminal

WHEEL_UP, WHEEL_DOWN, HELD = 64, 65, 32
"""What is added to the number of a button in an SGR mouse report (xterm, 1006)."""


class Mouse:
    """A mouse on a terminal, which it reports to as xterm does."""

    def __init__(self, shown: Terminal) -> None:
        self.shown = shown

    def report(self, button: int, x: int, y: int, *, is_up: bool = False) -> None:
        os.write(self.shown.ours, f"\x1b[<{button};{x + 1};{y + 1}{'m' if is_up else 'M'}".encode())
        self.shown.listen()

    def place(self, text: str, line: int | None = None) -> tuple[int, int]:
        """Where a text is, in cells, once it is shown: an app may paint a screen in several steps."""
        found: list[tuple[int, int]] = []

        def is_found() -> bool:
            rows = enumerate(self.shown.text().split("\n"))
            found.extend((row.index(text), y) for y, row in rows if text in row and line in (None, y))
            return bool(found)

        self.shown.until(is_found, repr(text))
        return found[0]

    def click(self, text: str, line: int | None = None) -> None:
        x, y = self.place(text, line)
        self.click_at(x, y)

    def click_at(self, x: int, y: int) -> None:
        self.report(0, x, y)
        self.report(0, x, y, is_up=True)

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        self.report(0, *start)
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
        for step in range(1, steps + 1):
            x, y = (first + (last - first) * step // steps for first, last in zip(start, end, strict=True))
            self.report(HELD, x, y)
        self.report(0, *end, is_up=True)

    def wheel(self, button: int, x: int, y: int, until: Callable[[], object]) -> None:
        """Turn the wheel until it has an effect; terminals report each notch."""
        for _ in range(30):
            self.report(button, x, y)
            self.shown.listen(0.1)
            if until():
                return
        raise AssertionError(f"the wheel does nothing:\n{self.shown.text()}")


def lines(shown: Terminal) -> list[str]:
    return shown.text().split("\n")


def numbers(shown: Terminal) -> list[int]:
    """The numbers of the frames that are listed."""
    return [int(line.split()[0]) for line in lines(shown)[2:23]]


@pytest.mark.costly("a terminal reports each click and each notch")
def test_clicks_on_what_does_something_and_the_wheel_on_lists_texts_and_trees(tmp_path: Path) -> None:
    made = conversation(60)
    timed(tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", made, list(range(len(made))))
    captured(tmp_path, "older", stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path)) as shown:
        mouse = Mouse(shown)
        # The columns are as wide as the summaries that have been read.
        shown.until(lambda: shown.text().count("1 unans") == 2)
        # A click on a heading sorts.
        mouse.click("frames", 1)
        shown.until(lambda: "by frames" in lines(shown)[0])
        # A second click on a row opens it.
        x, y = mouse.place("library", 2)
        mouse.click_at(x, y)
        mouse.click_at(x, y)
        # The columns are as wide as the names that have been read, and findings get one when there are any.
        shown.until(lambda: "124 frames" in shown.text() and "· 1  call search" in shown.text(), "the traffic")
        mouse.click("status", 1)
        shown.until(lambda: "by status ▼" in lines(shown)[0])
        # A key of the footer does what the key does.
        mouse.click("errors", 23)
        shown.until(lambda: "has:failure" in lines(shown)[0])
        mouse.click("errors", 23)
        shown.until(lambda: "has:failure" not in lines(shown)[0])
        # A tab shows a view of the row that was clicked.
        mouse.click("+0.004")
        shown.press("\r")
        shown.until(lambda: "1 text" in shown.text() and "n: 1" in shown.text(), "its detail")
        assert "› frame 4" in lines(shown)[0]
        mouse.click("pretty")
        shown.until(lambda: '"jsonrpc": "2.0"' in shown.text(), "the tree")
        # A click on the sign of a fold folds.
        mouse.click('▾ "params"')
        shown.until(lambda: '▸ "params"' in shown.text(), "the fold")
        # A click in the breadcrumb leads there: the capture's name closes the detail, `sessions` leaves the capture.
        mouse.click("library", 0)
        shown.until(lambda: "1 text" not in shown.text())
        shown.press("F")
        shown.until(lambda: "› findings" in lines(shown)[0])
        mouse.click("sessions", 0)
        shown.until(lambda: "2 recorded" in shown.text())
        # The wheel scrolls lists, texts and trees.
        shown.press("g\r")
        shown.until(lambda: "124 frames" in shown.text(), "the traffic")
        assert "+0.001" in lines(shown)[2]
        mouse.wheel(WHEEL_DOWN, 30, 10, lambda: "+0.001" not in shown.text())
        mouse.wheel(WHEEL_UP, 30, 10, lambda: "+0.001" in lines(shown)[2])
        shown.press("g\r4")
        shown.until(lambda: "00000000" in shown.text())
        top = mouse.place("00000000")
        mouse.wheel(WHEEL_DOWN, 30, 20, lambda: "00000000" not in shown.text())
        mouse.wheel(WHEEL_UP, 30, 20, lambda: "00000000" in shown.text())
        assert mouse.place("00000000") == top
        shown.press("2")
        shown.until(lambda: '"jsonrpc"' in shown.text())
        mouse.wheel(WHEEL_DOWN, 30, 20, lambda: '"jsonrpc"' not in shown.text())
        # The cursor scrolls along: a key goes on from there.
        shown.press("j")
        assert '"jsonrpc"' not in shown.text()


@pytest.mark.costly("a terminal reports each cell of a drag, and the app draws each")
def test_a_drag_moves_the_border_and_the_bar(tmp_path: Path) -> None:
    made = conversation(60)
    timed(tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", made, list(range(len(made))))
    with terminal(tmp_path, str(tmp_path)) as shown:
        mouse = Mouse(shown)
        shown.until(lambda: "124 frames" in shown.text())
        shown.press("\r")
        shown.until(lambda: "1 text" in shown.text())
        x, y = mouse.place("1 text")
        mouse.drag((x, y), (x, y - 5))
        shown.until(lambda: mouse.place("1 text")[1] == y - 5, "the larger detail")
        kept = tmp_path / ".local/state/mcpproxy/tui_layout"
        shown.until(lambda: kept.exists() and not kept.read_text().startswith("below 45\n"), "the kept size")
        # A drag of a tab does not count as a click on it.
        mouse.drag(mouse.place("3 raw"), (mouse.place("3 raw")[0], y))
        shown.until(lambda: mouse.place("1 text")[1] == y)
        assert 'protocolVersion: "2025-06-18"' in shown.text()
        shown.press("\x1b")
        shown.until(lambda: "1 text" not in shown.text())
        # The line at which the drag ends depends on its steps, and no step may leave a line of an earlier one.
        mouse.drag((79, 3), (79, 20))
        shown.until(lambda: numbers(shown)[0] > 90, "the end of the list, nearly")
        assert numbers(shown) == list(range(numbers(shown)[0], numbers(shown)[0] + 21))
        mouse.drag((79, 20), (79, 23))
        shown.until(lambda: re.search(r"call search +unanswered", shown.text()), "the end of the list")


def test_a_drag_moves_the_border_beside_the_list(tmp_path: Path) -> None:
    captured(tmp_path)
    with terminal(tmp_path, str(tmp_path), size=(170, 30)) as shown:
        mouse = Mouse(shown)
        shown.until(lambda: "16 frames" in shown.text())
        shown.press("\r")
        shown.until(lambda: "1 text" in shown.text())
        x, _ = mouse.place("1 text")
        mouse.drag((102, 10), (92, 10))
        shown.until(lambda: mouse.place("1 text")[0] == x - 10, "the larger detail")
