"""Messages are seen in any terminal, wrapped at words, and cover no row."""

from pathlib import Path

from mcpproxy.tui.safe_text import MAX_TOAST_LINES, notify
from mcpproxy.tui.widgets.foot import Foot
from tests.mcpproxy.tui.stage import Stage, captured, play

TEXT = "cannot write the marks of this capture, because there is no space left on the device"


def test_a_message_takes_lines_above_the_foot_and_the_row_at_the_cursor_stays_in_sight(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("G")
        for size in ((80, 24), (120, 30), (40, 10)):
            await stage.resize(size)
            notify(stage.app, TEXT, bad=True)
            await stage.until(lambda: "device" in stage.text(), "the message")
            await stage.settled()
            rows, foot_rows = stage.text().splitlines(), stage.app.screen.query_one(Foot).size.height
            shown = [row for row in rows if row.startswith("│")]
            assert " ".join(row.lstrip("│ ").rstrip() for row in shown) == f"✗ {TEXT}"
            assert rows[-foot_rows - len(shown) : -foot_rows] == shown
            assert any("server exited 0" in row for row in rows)
            stage.app.clear_notifications()
            await stage.until(lambda: "device" not in stage.text(), "the message to go")
        for size in ((20, 5), (1, 1)):
            notify(stage.app, TEXT * 10, bad=True)
            await stage.resize(size)
            await stage.drawn()
            assert stage.app._exception is None

    play(act, captured(tmp_path), size=(80, 24))


def test_a_message_that_is_repeated_is_shown_once(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.listed()
        for text in ("nothing waits", "nothing is selected", "nothing is selected", "nothing waits"):
            notify(stage.app, text)
            await stage.drawn()
        shown = [row.strip("│ ") for row in stage.text().splitlines() if row.startswith("│")]
        assert shown == ["nothing is selected", "nothing waits"]

    play(act, captured(tmp_path), size=(80, 24))


def test_hostile_and_many_lines_are_bounded(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.listed()
        notify(stage.app, ["\x1b[31m\n\u202e" + "図" * 100_000, *(f"line {number}" for number in range(1_000))])
        await stage.see(f"and {1_001 - MAX_TOAST_LINES:,} more")
        assert not {"\x1b", "\u202e"} & set(stage.text())
        assert len([row for row in stage.text().splitlines() if row.startswith("│")]) <= 12

    play(act, captured(tmp_path), size=(80, 24))
