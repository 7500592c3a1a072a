"""The user's colour rules on the screen: frames and exchanges, filters of every kind, readable in every theme."""

from pathlib import Path

from rich.style import Style
from textual.color import Color

from mcpproxy.tui.colours.row_styles import MIN_CONTRAST, contrast
from mcpproxy.tui.colours.themes import DARK, LIGHT, PALETTE_DARK
from tests.mcpproxy.tui.stage import Stage, captured, play
from tests.mcpproxy.tui.test_colour_rules import write


def styles(stage: Stage, row: int) -> list[Style]:
    """The styles of the texts in a row of the traffic."""
    table = stage.traffic.table
    table.render_lines(table.region.reset_offset)
    return [segment.style for segment in table.render_line(row + 1) if segment.style and segment.text.strip()]


def looks(stage: Stage) -> dict[int, str]:
    """The colour of the look of each row that has one, by the number of its frame."""
    rows = stage.traffic.table.rows
    found = {}
    for number in range(len(rows)):
        line = rows.line(number)
        if line.look is not None:
            found[int(line.cells["number"][0].text)] = line.look.colour or "forms"
    return found


def test_the_first_rule_that_selects_a_row_gives_it_its_look(tmp_path: Path) -> None:
    write(
        '[colours]\n"has:error" = "#ff8800 bold"\n"found" = "green"\n"method:notifications/*" = "underline"\n'
        '"latency>" = "red"\n"kind:request method:tools/call" = "blue"\n'
    )

    async def act(stage: Stage) -> None:
        await stage.see("colours.toml, line 5: expected")
        await stage.open()
        await stage.until(lambda: "green" in looks(stage).values(), "what needs the frames")
        await stage.until(lambda: looks(stage) == expected, f"{expected}, not {looks(stage)}")
        for theme in (DARK, LIGHT):
            stage.app.theme = theme.name
            await stage.settled()
            for row in (2, 8):  # the notification, the error
                for style in styles(stage, row):
                    assert style.color is not None
                    assert style.bgcolor is not None
                    ratio = contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
                    assert ratio >= MIN_CONTRAST, (theme.name, row)
            assert all(style.underline for style in styles(stage, 2))
            assert all(style.bold for style in styles(stage, 8))
        stage.app.theme = PALETTE_DARK.name
        await stage.settled()
        assert {style.color.number for style in styles(stage, 3) if style.color} == {4}
        assert all(style.color is None or style.color.type.name != "TRUECOLOR" for style in styles(stage, 8))
        await stage.press("x")
        await stage.until(lambda: looks(stage).get(4) == "green" and looks(stage).get(8) == "#ff8800", "exchanges")

    expected = {
        3: "forms",
        **dict.fromkeys((4, 6, 8, 10, 12, 14, 17), "blue"),
        **dict.fromkeys((5, 7, 11, 13), "green"),
        **dict.fromkeys((9, 15), "#ff8800"),
    }
    play(act, captured(tmp_path), size=(100, 30))
