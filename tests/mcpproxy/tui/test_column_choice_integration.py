"""Columns that the user has chosen, on every screen with a list that keeps them."""

from pathlib import Path

from mcpproxy.history import history_path
from mcpproxy.tui.layout_state import save_columns, saved_columns
from mcpproxy.tui.rows.column_texts import MAX_TEXT_CELLS
from mcpproxy.tui.screens.column_choice import ColumnChoiceScreen
from mcpproxy.wording.cells import cells
from tests.mcpproxy.tui.stage import Stage, captured, play


def heading(stage: Stage) -> list[str]:
    """The headings of the list."""
    return stage.text().split("\n")[1].split()


def shown(stage: Stage) -> list[str]:
    """The columns of the traffic."""
    return [column.name for column in stage.traffic.table.shown_columns]


async def choose(stage: Stage, *keys: str) -> None:
    """Press keys in the list of columns."""
    await stage.press("|")
    await stage.until(lambda: isinstance(stage.app.screen, ColumnChoiceScreen))
    await stage.press(*keys)


def test_what_is_chosen_is_shown_in_its_order_kept_and_forgotten(tmp_path: Path) -> None:
    usual: list[str] = []
    names = ["way", "time", "findings", "what", "status", "latency", "size", "more"]

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.until(lambda: stage.traffic.reading.findings.has_ended)
        await stage.drawn()
        usual.extend(shown(stage))
        assert "size" not in usual
        # `#` is hidden, the time moves below the direction, and the size is forced.
        at_size = [column.name for column in stage.traffic.table.columns].index("size")
        await choose(stage, "space", "j", "J", *["down"] * (at_size - 2), "space", "enter")
        await stage.until(lambda: shown(stage)[:2] == ["way", "time"])
        assert shown(stage) == names
        await stage.until(lambda: saved_columns("traffic") == tuple(names))
        await stage.press("x")
        assert shown(stage)[0] == "number"  # exchanges have a choice of their own
        await stage.press("x")
        assert shown(stage)[0] == "way"
        await stage.press("escape", "enter")
        await stage.until(lambda: shown(stage)[:1] == ["way"])
        await choose(stage, "r")
        await stage.until(lambda: shown(stage) == usual)
        await stage.until(lambda: not saved_columns("traffic"))

    play(act, captured(tmp_path), size=(80, 24))


def test_one_column_stays_esc_cancels_and_wrong_names_are_ignored(tmp_path: Path) -> None:
    path = history_path("tui_layout")
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text(
        "columns.sessions server nonsense \x1b[31m server frames\ncolumns.traffic nonsense\ncolumns. x\nno\n"
    )

    async def act(stage: Stage) -> None:
        await stage.listed()
        assert heading(stage) == ["server", "frames"]
        await choose(stage, "space", "down", "space")
        await stage.see("at least one column stays", "[x] frames", "how many frames were recorded")
        # The list shows each change at once; Esc restores what it showed before.
        assert heading(stage) == ["frames"]
        await stage.press("escape")
        assert heading(stage) == ["server", "frames"]
        await stage.open()
        assert shown(stage)[0] == "number"
        for screen in "FLOE":
            await stage.press(screen)
            await choose(stage)
            assert isinstance(stage.app.screen, ColumnChoiceScreen)
            assert [column for column in stage.app.screen.columns if not column.text] == [], screen
            assert all(cells(column.text) <= MAX_TEXT_CELLS for column in stage.app.screen.columns), screen
            await stage.press("escape", "escape")
            await stage.until(lambda: stage.app.screen is stage.app.screen_stack[-1])

    play(act, captured(tmp_path), size=(100, 30))


def test_the_last_columns_are_dropped_first_and_extra_ones_say_what_they_promise(tmp_path: Path) -> None:
    save_columns("traffic", ["http", "session", "turn", "more", "what", "clock"])

    async def act(stage: Stage) -> None:
        await stage.open()
        assert "clock" in shown(stage)
        await stage.see(":40.0")
        await stage.resize((40, 10))
        await stage.until(lambda: "clock" not in shown(stage))
        assert shown(stage)[:3] == ["http", "session", "turn"]

    play(act, captured(tmp_path), size=(100, 30))


def test_it_says_what_is_shown_when_the_terminal_grows_and_leaves_the_foot_whole(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await choose(stage)
        await stage.see("[ ] size")
        await stage.resize((140, 40))
        await stage.see("[x] id", "[x] size", "H sessions", "? help")
        await stage.until(lambda: "╯" not in "".join(stage.text().split("\n")[-2:]))
        await stage.press("space")
        await stage.see("[ ] #")
        await stage.resize((80, 24))
        await stage.see("[ ] #", "[x] size", "? help")

    play(act, captured(tmp_path), size=(80, 24))
