"""Peers: what both sides declare is shown, regardless of what they send, and nothing in it acts on the terminal."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from mcpproxy.tui.screens.peers import PeersScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.stage import (
    END,
    INITIALIZE,
    INITIALIZED,
    Stage,
    captured,
    frame_record,
    play,
    record,
    sizes,
)
from tests.mcpproxy.tui.test_peers import handshake


class TestScreen:
    """What the keys of the screen do."""

    def test_it_is_one_key_away_from_anywhere_and_shows_what_comes_later(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        made = CaptureFile(tmp_path / "x" / "live.mcpcap")
        records = lines(
            [("header", header(name="x")), frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]
        )
        made.append(records[0])

        async def act(stage: Stage) -> None:
            await stage.choose("library")
            await stage.press("C")
            await stage.see("library › peers", "Cursor 2.1", "library 0.6", "tools", "2025-06-18 in use")
            await stage.press("L")
            await stage.see("library › latency")
            await stage.press("C")
            await stage.see("CLIENT  initialize, frame 1")
            await stage.press("escape", "enter")
            await stage.see("16 frames")
            await stage.press("C", "down", "G", "g")
            await stage.see("SERVER  initialize, frame 2")
            assert isinstance(stage.app.screen, PeersScreen)
            await stage.see("▸CLIENT")
            await stage.press("tab")
            await stage.see("▸SERVER")
            await stage.press("c")
            await stage.see("copy as")
            await stage.press("escape", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            assert stage.traffic.table.cursor == 2 - 1
            await stage.press("C")
            await stage.press("escape", "ctrl+p", *"peers", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, PeersScreen))
            await stage.back()
            await stage.choose("x")
            await stage.press("C")
            await stage.see("neither side has said anything about itself yet")
            made.append(records[1])
            made.append(records[2])
            await stage.see("Cursor 2.1", "library 0.6")

        play(act, captured(tmp_path), tmp_path / "x" / "live.mcpcap")
        made.close()

    @pytest.mark.parametrize("size", sizes((80, 24), soak=[(20, 5), (1, 1), (200, 60)]))
    def test_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        evil = "\x1b]52;c;aGk=\x07\u202e"
        made = handshake(1, evil, {evil: {evil: evil}}, instructions=evil * 200)
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), *made, END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("C", "G", "g")
            assert not {"\x1b", "\u202e", "\x07"} & set(stage.text())
            await stage.press("tab")
            if size[0] >= 80:
                await stage.see("\\x1b]52;c;aGk=\\x07\\u202e")
                await stage.squeezed()

        play(act, path, size=size)
