"""Themes: dark and light, in colours of our own or in the terminal's palette.

Every role has a colour and a form, so that a screen means the same without colours: `bad` and `warm` are bold, and
where the palette is the terminal's, `dim` is faint and the row at the cursor is in reverse. In our own colours, the
contrast is at least 4.5 for text and 3 for lines, also after rounding to 256 colours. Of a terminal's palette, only the
names are known; so no text is on a coloured background there, and only the first eight colours are used.
"""

from typing import Final

from textual.theme import Theme

from mcpproxy.tui.colours.depth import ColourDepth


def _scroll_bar(track: str, bar: str, active_bar: str) -> dict[str, str]:
    """The colours of a scroll bar; in Textual's own, the track is darker than the screen."""
    return {
        **dict.fromkeys(("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active"), track),
        "scrollbar": bar,
        "scrollbar-hover": active_bar,
        "scrollbar-active": active_bar,
        "scrollbar-corner-color": track,
    }


DARK: Final = Theme(
    name="mcpproxy-dark",
    primary="#5fafd7",
    accent="#5fafd7",
    error="#ff6b6b",
    warning="#e5c07b",
    success="#98c379",
    background="#16181d",
    surface="#16181d",
    panel="#23262e",
    foreground="#d8dce4",
    dark=True,
    variables={
        "dim": "#959ba8",
        "dim-style": "#959ba8",
        "server": "#c49bea",
        "line": "#6b7280",
        "primary-muted": "#333940",
        "block-hover-background": "#333940",
        **_scroll_bar("#23262e", "#737a87", "#5fafd7"),
    },
)
LIGHT: Final = Theme(
    name="mcpproxy-light",
    primary="#005f87",
    accent="#005f87",
    error="#b00020",
    warning="#8a5a00",
    success="#22662a",
    background="#fdfdfb",
    surface="#fdfdfb",
    panel="#ebebe6",
    foreground="#22252b",
    dark=False,
    variables={
        "dim": "#5f646e",
        "dim-style": "#5f646e",
        "server": "#6b2f8f",
        "line": "#7d828b",
        "primary-muted": "#d5dbe0",
        "block-hover-background": "#d5dbe0",
        **_scroll_bar("#ebebe6", "#767b84", "#005f87"),
    },
)


def _palette_theme(name: str, *, accent: str, warning: str, server: str, is_dark: bool) -> Theme:
    """Returns a theme of the terminal's own palette, on its own background."""
    return Theme(
        name=name,
        ansi=True,
        primary=accent,
        accent=accent,
        error="ansi_red",
        warning=warning,
        success="ansi_green",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        foreground="ansi_default",
        dark=is_dark,
        variables={
            "ansi-background": "ansi_default",
            "ansi-foreground": "ansi_default",
            "dim": "ansi_default",
            "dim-style": "dim ansi_default",
            "server": server,
            "line": "ansi_default",
            "primary-muted": "ansi_default",
            "footer-key-foreground": accent,
            "border": accent,
            "input-selection-background": "ansi_default",
            "screen-selection-background": "ansi_default",
            "screen-selection-foreground": "ansi_default",
            **_scroll_bar("ansi_default", "ansi_default", accent),
        },
    )


PALETTE_DARK: Final = _palette_theme(
    "mcpproxy-dark-palette", accent="ansi_cyan", warning="ansi_yellow", server="ansi_magenta", is_dark=True
)
PALETTE_LIGHT: Final = _palette_theme(
    "mcpproxy-light-palette", accent="ansi_blue", warning="ansi_magenta", server="ansi_magenta", is_dark=False
)
"""Without yellow, green and cyan, which most palettes do not keep apart from a light background."""
THEMES: Final = (DARK, LIGHT, PALETTE_DARK, PALETTE_LIGHT)

PALETTE_CSS: Final = """
    App:ansi {
        & .table--dim, & .pane--dim, & .editor--comment { text-style: dim; }
        & .table--cursor, & .pane--cursor, & .pane--match { text-style: bold reverse; }
        & .table--blurred, & .table--found, & .pane--found { text-style: underline; }
        & #buckets:blur .table--blurred, & #slowest:blur .table--blurred { text-style: none; }
        & .table--head { text-style: bold underline; }
        & .input--cursor, & .input--selection, & .text-area--cursor, & .text-area--selection { text-style: reverse; }
        & .foot--hover { text-style: bold reverse; }
        & .foot--disabled { text-style: dim; }
        & PaletteScreen .table--blurred { text-style: bold reverse; }
        & ConfirmScreen, & LineScreen, & FilePrompt, & ChoiceScreen, & PaletteScreen { background: transparent; }
    }
"""
"""Style sheet of the forms that replace colours where the palette is the terminal's, or where there are no colours."""


def theme_for(depth: ColourDepth, *, is_light: bool) -> Theme:
    """Returns the theme for a terminal.

    Args:
        depth: the colours that the terminal can show.
        is_light: whether its background is light.
    """
    if depth in (ColourDepth.NONE, ColourDepth.PALETTE):
        return PALETTE_LIGHT if is_light else PALETTE_DARK
    return LIGHT if is_light else DARK
