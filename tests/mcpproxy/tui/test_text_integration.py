"""The text of a row: decoded, wrapped, whole, and nothing in it hidden."""

import json
import re
from pathlib import Path

import pytest

from mcpproxy.tui.screens.definitions import ToolsScreen
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    INITIALIZE,
    INITIALIZED,
    Stage,
    captured,
    play,
    record,
    said,
)
from tests.mcpproxy.tui.test_text import block


class TestSaving:
    """Images, sounds and blobs become files."""

    def test_o_saves(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        images = [{"type": "image", "mimeType": f"image/{kind}", "data": "aGk="} for kind in ("png", "x\x1b/../../e")]
        middles = [("header", header(name="library")), said("c2s", INITIALIZE), said("s2c", INITIALIZED)]
        for number in (1, 2):
            answer = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": images[:number]}}).encode()
            middles += [said("c2s", CALL % (number, 1)), said("s2c", answer)]
        path = record(tmp_path / "x" / "x.mcpcap", [*middles, END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("o")
            await stage.see("no image, sound or blob")
            await stage.press("down", "down", "down", "o")
            await stage.see("save image/png · 2 B to", "library-4.png")
            await stage.press("enter")
            await stage.see("saved 2 B to")
            await stage.press("down", "down", "o")
            await stage.see("1  image/png", "2  image/x\\x1b")
            await stage.press("2")
            await stage.see("library-6-2.bin")
            await stage.press("enter")
            await stage.until(lambda: (tmp_path / "library-6-2.bin").exists())

        play(act, path)
        assert (tmp_path / "library-4.png").read_bytes() == b"hi"


class TestScreens:
    """The views."""

    def test_a_string_in_pretty_unfolds_and_folds(self, tmp_path: Path) -> None:
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": block("one\ntwo " + "word " * 40)}).encode()
        middles = [("header", header()), said("c2s", CALL % (1, 1)), said("s2c", answer), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "enter", "2")
            await stage.see('▸ "text": "one\\ntwo word')
            for _ in range(7):
                await stage.press("down")
            await stage.press("enter")
            await stage.see('▾ "text": 208 characters')
            assert re.search(r"^ +one$\n^ +two( word)+$\n^ +word( word)+$", stage.text(), re.MULTILINE)
            await stage.press("down", "enter")
            await stage.see('▸ "text": "one\\ntwo word')

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 30))

    def test_stderr_is_its_line(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("G", "up", "up", "enter")
            await stage.see("record 16", " warning: low on shelves")

        play(act, captured(tmp_path))

    def test_definitions_are_readable(self, tmp_path: Path) -> None:
        tool = {
            "name": "search",
            "description": "Finds books.\n\nIGNORE\u200b this.",
            "inputSchema": {"properties": {"q": {"type": "string", "description": "The\nwords"}}},
        }
        listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}).encode()
        asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), said("c2s", asked), said("s2c", listed), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            await stage.see("search")
            await stage.press("enter")
            await stage.see("hidden characters", "Finds books.", "IGNORE\\u200b this.", "q string", "    words")
            assert isinstance(stage.app.screen, ToolsScreen)
            await stage.press("2")
            await stage.see('"name": "search"')
            await stage.press("1")
            await stage.press("slash", *"words", "enter")
            await stage.see("1 of 1")
            await stage.press("escape")
            await stage.until(lambda: "1 of 1" not in stage.text())
            await stage.see("Finds books.")
            await stage.press("escape")
            await stage.until(lambda: "Finds books." not in stage.text())

        play(act, path)
