"""The preview: in a wide terminal, the detail of the row at the cursor, without a key."""

from pathlib import Path

from captures.file import CaptureFile
from mcpproxy.tui.layout_state import saved_layout
from tests.captures.samples import lines
from tests.mcpproxy.tui.stage import Stage, captured, conversation, frame_record, play

WIDE = (160, 30)
LONG = b'{"jsonrpc":"2.0","id":500,"method":"tools/call","params":{"name":"search","arguments":{"q":"the last row"}}}'


async def at(stage: Stage, frame: int, text: str) -> None:
    """Wait until the detail shows a frame, and a text that is not in the list."""
    await stage.settled()
    await stage.see(f"│ frame {frame}  1", text)


def test_it_follows_the_cursor_and_esc_leaves_the_screen_and_not_the_preview(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await at(stage, 1, "protocolVersion:")
        await stage.press("down", "down", "down")
        await at(stage, 4, "n: 1")
        assert "› frame 4" not in stage.text()  # the title names a row that was opened
        await stage.press("enter")
        await stage.see("› library › frame 4")
        assert stage.traffic.detail.pane.has_focus
        await stage.press("escape")
        assert stage.traffic.table.has_focus
        assert "› frame 4" not in stage.text()
        await stage.press("3", "down")
        await at(stage, 5, '{"jsonrpc":"2.0"')
        await stage.press("slash", *"method:tools/*", "enter", "escape")
        assert stage.traffic.detail.display
        assert stage.traffic.filter.text == ""
        await stage.press("escape")
        assert stage.app.screen is not stage.app.screen_stack[-2]
        await stage.see("recorded")

    play(act, captured(tmp_path), size=WIDE)


def test_it_is_hidden_by_a_key_which_is_kept_and_where_there_is_no_room(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await at(stage, 1, "protocolVersion:")
        await stage.resize((100, 30))
        await stage.until(lambda: not stage.traffic.detail.display)
        await stage.resize(WIDE)
        await at(stage, 1, "protocolVersion:")
        await stage.press(*"<" * 7)
        await stage.until(lambda: not saved_layout().has_preview)
        await stage.press("escape", "enter")
        await stage.until(lambda: len(stage.traffic.table.rows))
        assert not stage.traffic.detail.display
        await stage.press("enter")
        await stage.until(lambda: stage.traffic.detail.display)
        await stage.press("escape")
        await stage.until(lambda: not stage.traffic.detail.display)
        await stage.press(">")
        await stage.until(lambda: saved_layout().has_preview)
        await at(stage, 1, "protocolVersion:")

    play(act, captured(tmp_path), size=WIDE)


def test_no_name_of_a_tab_is_cut(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("end", "up")
        # This is as wide as the detail without its border.
        await stage.see("│ frame 11  1 text 2 pretty 3 raw 4 hex 5 6 exchange 7 findings")

    play(act, captured(tmp_path, calls=3), size=WIDE)


def test_it_shows_what_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap"
    path.parent.mkdir()
    writer, middles = CaptureFile(path), conversation(2)
    for line in lines(middles):
        writer.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.see("following", f"frame {len(middles) - 1}  1 text")
        writer.append(lines([*middles, frame_record("c2s", LONG)])[-1])
        await stage.see(f"frame {len(middles)}  1 text", "q: the last row")
        await stage.press("up")
        await at(stage, len(middles) - 1, "paused")

    try:
        play(act, path, size=WIDE)
    finally:
        writer.close()
