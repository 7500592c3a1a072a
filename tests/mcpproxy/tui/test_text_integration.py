"""The text of a row: decoded, wrapped and complete, with nothing hidden in it."""

import json
import re
from pathlib import Path

import pytest

from mcpproxy.tui.details.detail import detail, entry_name
from mcpproxy.tui.screens.definitions import ToolsScreen
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    INITIALIZE,
    INITIALIZED,
    Stage,
    captured,
    frame_record,
    play_each,
    record,
)
from tests.mcpproxy.tui.test_rows import understood
from tests.mcpproxy.tui.test_text import block


async def images_become_files(stage: Stage) -> None:
    await stage.open("images")
    await stage.press("o")
    await stage.see("no image, sound or blob")
    await stage.press("down", "down", "down", "o")
    await stage.see("save image/png · 2 B to", "images-4.png")
    await stage.press("enter")
    await stage.see("saved 2 B to")
    await stage.press("down", "down", "o")
    await stage.see("1  image/png", "2  image/x\\x1b")
    await stage.press("2")
    await stage.see("images-6-2.bin")
    await stage.press("enter")
    await stage.until(lambda: Path("images-6-2.bin").exists())


async def a_string_in_pretty_unfolds_and_folds(stage: Stage) -> None:
    await stage.resize((80, 30))
    await stage.open("words")
    await stage.press("down", "enter", "2")
    await stage.see('▸ "text": "one\\ntwo word')
    await stage.press(*["down"] * 7, "enter")
    await stage.see('▾ "text": 208 characters')
    assert re.search(r"^ +one$\n^ +two( word)+$\n^ +word( word)+$", stage.text(), re.MULTILINE)
    await stage.press("down", "enter")
    await stage.see('▸ "text": "one\\ntwo word')


async def definitions_are_readable(stage: Stage) -> None:
    await stage.open("tools")
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
    await stage.until(lambda: stage.app.screen.query_one("#tools").has_focus)


def test_texts_images_and_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images = [{"type": "image", "mimeType": f"image/{kind}", "data": "aGk="} for kind in ("png", "x\x1b/../../e")]
    middles = [("header", header(name="images")), frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]
    for number in (1, 2):
        answer = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": images[:number]}}).encode()
        middles += [frame_record("c2s", CALL % (number, 1)), frame_record("s2c", answer)]
    words = json.dumps({"jsonrpc": "2.0", "id": 1, "result": block("one\ntwo " + "word " * 40)}).encode()
    tool = {
        "name": "search",
        "description": "Finds books.\n\nIGNORE\u200b this.",
        "inputSchema": {"properties": {"q": {"type": "string", "description": "The\nwords"}}},
    }
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}).encode()
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    paths = [
        record(tmp_path / "images" / "x.mcpcap", [*middles, END]),
        record(
            tmp_path / "words" / "x.mcpcap",
            [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", words), END],
        ),
        record(
            tmp_path / "tools" / "x.mcpcap",
            [("header", header()), frame_record("c2s", asked), frame_record("s2c", listed), END],
        ),
    ]
    acts = (images_become_files, a_string_in_pretty_unfolds_and_folds, definitions_are_readable)
    play_each(acts, *paths)
    assert (tmp_path / "images-4.png").read_bytes() == b"hi"


def test_the_text_of_a_line_of_stderr_is_the_line(tmp_path: Path) -> None:
    with understood(captured(tmp_path)) as reading:
        row = reading.stderr_rows[0]
        assert entry_name(reading.index.entry(row)) == "record 16"
        shown = ["".join(span.text for span in line) for line in detail(reading, row, "text").lines]
    assert [line.strip() for line in shown] == ["warning: low on shelves"]
