"""Where the palette is the terminal's, only its colours are sent; what terminfo says about a terminal is believed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcpproxy.tui.stage import captured
from tests.mcpproxy.tui.terminals import terminal


@pytest.mark.parametrize(("name", "count"), [("xterm", "8"), ("no such terminal", "None")])
def test_terminfo_is_read_once_per_process(name: str, count: str) -> None:
    script = f"from mcpproxy.tui.colours.depth import colours_in_terminfo as f; print(f({name!r}))"
    environ = {**os.environ, "TERM": name}
    printed = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() in (count, "None")  # a system may have no entries at all


@pytest.mark.parametrize("name", ["xterm", pytest.param("linux", marks=pytest.mark.soak)])
def test_a_terminal_of_a_few_colours_gets_no_others(tmp_path: Path, name: str) -> None:
    path = captured(tmp_path, calls=20)
    with terminal(tmp_path, str(path), more={"TERM": name}) as shown:
        shown.until(lambda: "call search" in shown.text())
        shown.until(lambda: {cell.reverse for cell in list(shown.screen.buffer[2].values())[:70]} == {True})
        # Next to a scroll bar, too, which is also in reverse.
        shown.press("j")
        shown.until(lambda: {shown.screen.buffer[3][x].reverse for x in range(80)} == {True})
        shown.until(lambda: {shown.screen.buffer[2][x].reverse for x in range(79)} == {False})
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
    codes = {int(code or 0) for found in re.findall(rb"\x1b\[([0-9;]*)m", shown.heard) for code in found.split(b";")}
    assert codes <= {0, 1, 2, 4, 7, *range(30, 38), 39, 49}
    assert {7, 35, 36, 49} <= codes
