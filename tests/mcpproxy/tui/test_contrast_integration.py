"""Text is readable in both themes: on the row at the cursor, in titles, in the line of keys, and in search matches."""

from pathlib import Path

import pytest
from rich.color import Color, ColorSystem, ColorType
from rich.style import Style
from textual.color import Color as TextualColor

from mcpproxy.tui.colours.themes import DARK, LIGHT, PALETTE_DARK, PALETTE_LIGHT
from mcpproxy.tui.safe_text import STYLES, cursor_styles, role_styles
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Table
from tests.mcpproxy.tui.stage import Stage, captured, play

LEAST = 3.0
"""The lowest contrast that WCAG 2.2 allows for bold or large text, and for signs."""
LEAST_TO_READ = 4.5
"""The lowest contrast that it allows for other text."""


def luminance(color: Color) -> float:
    """The relative luminance of a colour, as WCAG defines it."""
    assert color.triplet is not None
    parts = [part / 255 for part in color.triplet]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrasts(stage: Stage) -> dict[str, float]:
    """The contrast of each text on the screen."""
    found = {}
    for strip in stage.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if style is None or style.color is None or style.bgcolor is None or not any(map(str.isalnum, text)):
                continue
            pair = luminance(style.color), luminance(style.bgcolor)
            least = LEAST if style.bold else LEAST_TO_READ
            found[text.strip()] = (max(pair) + 0.05) / (min(pair) + 0.05) / least
    return found


def test_all_text_has_enough_contrast(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        for theme in (DARK.name, LIGHT.name):
            stage.app.theme = theme
            await stage.open()
            await stage.press(*["down"] * 4)
            await stage.settled()
            on_cursor = contrasts(stage)
            await stage.press("enter", "/", *"found", "enter")
            await stage.see("1 of 1")
            await stage.press("2", "/", *"te", "enter")
            await stage.see("1 of ")
            await stage.settled()
            in_detail = contrasts(stage)
            for texts in (on_cursor, in_detail):
                faint = {text: contrast for text, contrast in texts.items() if contrast < 1}
                assert not faint, theme
            await stage.back()

    play(act, captured(tmp_path), size=(80, 24))


def downgraded(color: Color | None) -> Color:
    """The colour that a terminal with 256 colours shows."""
    assert color is not None
    indexed = color.downgrade(ColorSystem.EIGHT_BIT)
    return Color.from_triplet(indexed.get_truecolor())


def contrast(first: Color, second: Color) -> float:
    """The contrast of two colours, as WCAG defines it."""
    lights = sorted((luminance(first), luminance(second)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def styles_of(widget: Table | Pane, prefix: str, backgrounds: tuple[str, ...]) -> dict[str, Style]:
    """Every role on the widget's background, at the cursor, and on other backgrounds of its component classes."""
    base = widget.rich_style
    drawn = {f"{prefix} {role}": style for role, style in role_styles(widget, base, prefix).items()}
    drawn |= {f"{prefix} cursor {role}": style for role, style in cursor_styles(widget, base, prefix).items()}
    for name in backgrounds:
        part = widget.get_component_rich_style(f"{prefix}--{name}", partial=True)
        drawn |= {f"{prefix} {name} {role}": style for role, style in role_styles(widget, base + part, prefix).items()}
    for name in ("found", "match", "head"):
        if f"{prefix}--{name}" in widget.COMPONENT_CLASSES:
            drawn[f"{prefix} {name}"] = base + widget.get_component_rich_style(f"{prefix}--{name}", partial=True)
    return drawn


def test_every_role_is_readable_on_every_background_and_every_line_is_seen(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("enter", "2")
        await stage.settled()
        screen = stage.app.screen
        table, pane, foot = screen.query_one("#traffic", Table), screen.query_one(Pane), screen.query_one(Foot)
        title = screen.query_one("#title")
        for theme in (DARK, LIGHT):
            stage.app.theme = theme.name
            await stage.settled()
            texts = {**styles_of(table, "table", ("blurred",)), **styles_of(pane, "pane", ())}
            texts |= {f"title {role}": title.rich_style + role_styles(table, Style(), "table")[role] for role in STYLES}
            for name in ("key", "hover"):
                texts[f"foot {name}"] = foot.rich_style + foot.get_component_rich_style(f"foot--{name}", partial=True)
            lines = {
                f"{name} on {ground}": (colour(stage, name), colour(stage, ground))
                for name in ("line", "accent", "scrollbar", "scrollbar-active")
                for ground in ("surface", "panel")
            }
            for shown in (lambda color: color, downgraded):
                faint = {
                    name: contrast(shown(style.color), shown(style.bgcolor))
                    for name, style in texts.items()
                    if contrast(shown(style.color), shown(style.bgcolor)) < LEAST_TO_READ
                }
                assert not faint, theme.name
                unseen = {name: contrast(*map(shown, pair)) for name, pair in lines.items()}
                assert not {name: found for name, found in unseen.items() if found < LEAST}, theme.name

    play(act, captured(tmp_path), size=(80, 24))


def colour(stage: Stage, name: str) -> Color:
    """A colour of the theme."""
    return TextualColor.parse(stage.app.get_css_variables()[name]).rich_color


def test_a_palette_keeps_its_names_and_marks_the_cursor_in_reverse(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        for theme in (PALETTE_DARK, PALETTE_LIGHT):
            stage.app.theme = theme.name
            await stage.open()
            await stage.press("down", "enter", "2", "?")
            await stage.settled()
            await stage.press("escape", "tab")
            await stage.settled()
            styles = [
                style
                for strip in stage.app.screen._compositor.render_strips()
                for _, style, _ in strip
                if style is not None
            ]
            colors = {color for style in styles for color in (style.color, style.bgcolor) if color is not None}
            assert {color.type for color in colors} <= {ColorType.DEFAULT, ColorType.STANDARD}
            assert all(color.number is None or color.number < 8 for color in colors)
            assert {style.bgcolor.name for style in styles if style.bgcolor is not None} == {"default"}
            assert any(style.reverse for style in styles)
            await stage.back()

    play(act, captured(tmp_path), size=(80, 24))


@pytest.mark.costly("the lists of seven screens")
def test_the_cursor_of_every_list_is_reversed_in_a_palette(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.app.theme = PALETTE_DARK.name
        await stage.open()
        for keys in ((), ("F", "down"), ("L",), ("T",), ("O",), ("H",), ("|",)):
            await stage.press(*keys)
            await stage.settled()
            table = stage.app.focused
            assert isinstance(table, Table), keys
            stage.text()
            row = table.content_region.y + 1 + table.cursor - int(table.scroll_y)
            drawn = stage.app.screen._compositor.render_strips()[row]
            across = drawn.crop(table.content_region.x, table.content_region.x + table.room.width)
            assert {style is not None and style.reverse for _, style, _ in across} == {True}, (keys, across.text)

    play(act, captured(tmp_path, calls=20), size=(80, 24))
