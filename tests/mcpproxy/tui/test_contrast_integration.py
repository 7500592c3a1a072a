"""Text is readable in both themes: on the row at the cursor, in titles, in the line of keys, and in search matches."""

from pathlib import Path

from rich.color import Color

from mcpproxy.tui.colours.themes import DARK, LIGHT
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
