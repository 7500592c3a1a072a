"""Row styles: the styles of a row that has a look, readable on its background in every theme."""

from typing import Final

from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from mcpproxy.tui.colours.rules import PALETTE_COLOURS, ROLE_COLOURS, RowLook
from mcpproxy.wording.spans import Role

MIN_CONTRAST: Final = 4.5
"""The minimum contrast of a colour with the background; to reach it, the colour is mixed with that of plain text."""
_OWN_COLOURS: Final = (
    *("#7f8591", "#ff6b6b", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#b9bec9"),
    *("#9aa1ad", "#ff9090", "#b5e08c", "#ffe08a", "#8cc8ff", "#e0a0f0", "#80d8e4", "#ffffff"),
)
"""The colours of `PALETTE_COLOURS` where the palette is not the terminal's."""


def painted_styles(
    widget: Widget, styles: dict[Role, Style], look: RowLook, *, is_cursor: bool = False
) -> dict[Role, Style]:
    """Returns the styles of the roles in a row that has a look.

    Args:
        widget: the table.
        styles: the styles of the roles in the row without a look.
        look: the look.
        is_cursor: whether the row is at the cursor. A palette has no colour that can be read in reverse in any case.
    """
    forms = Style.parse(" ".join(sorted(look.forms)))
    is_palette = widget.app.native_ansi_color
    if not look.colour or (is_palette and is_cursor):
        return {role: style + forms for role, style in styles.items()}
    colour = _palette_colour(look.colour, styles) if is_palette else _own_colour(look.colour, styles, widget)
    return {role: style + (colour or Style()) + forms for role, style in styles.items()}


def _palette_colour(name: str, styles: dict[Role, Style]) -> Style | None:
    """Returns a colour of the terminal's palette, or None if it has no such colour."""
    if name in PALETTE_COLOURS:
        return Style(color=Color.parse(f"ansi_{name}").rich_color)
    return _role_colour(name, styles)


def _role_colour(name: str, styles: dict[Role, Style]) -> Style | None:
    for role in ROLE_COLOURS:
        if role == name:
            return Style(color=styles[role].color)
    return None


def _own_colour(name: str, styles: dict[Role, Style], widget: Widget) -> Style:
    """Returns a colour that can be read on the background of a row."""
    role_colour = _role_colour(name, styles)
    if role_colour is not None:
        return role_colour
    colour = Color.parse(_OWN_COLOURS[PALETTE_COLOURS.index(name)] if name in PALETTE_COLOURS else name)
    plain = styles["plain"]
    background = Color.from_rich_color(plain.bgcolor) if plain.bgcolor is not None else widget.background_colors[1]
    foreground = Color.from_rich_color(plain.color) if plain.color is not None else background.get_contrast_text()
    mixed = (colour.blend(foreground, step / 10, alpha=1) for step in range(11))
    readable = next((shade for shade in mixed if contrast(shade, background) >= MIN_CONTRAST), foreground)
    return Style(color=readable.rich_color)


def contrast(first: Color, second: Color) -> float:
    """Returns the contrast of two colours as WCAG 2.2 defines it, from 1 to 21."""
    lights = sorted((_luminance(first), _luminance(second)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: Color) -> float:
    """Returns the relative luminance of a colour, from 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
