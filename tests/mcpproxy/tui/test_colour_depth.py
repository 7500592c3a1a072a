"""How many colours the screens use, by what the terminal says about itself."""

import pytest

from mcpproxy.tui.colours.depth import ColourDepth, colour_depth
from mcpproxy.tui.colours.themes import DARK, LIGHT, PALETTE_DARK, PALETTE_LIGHT, theme_for

COUNTS = {"xterm": 8, "linux": 8, "screen": 8, "rxvt-16color": 16, "st": 256, "vt220": 0}


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm"}, ColourDepth.PALETTE),
        ({"TERM": "linux"}, ColourDepth.PALETTE),
        ({"TERM": "screen"}, ColourDepth.PALETTE),
        ({"TERM": "screen", "COLORTERM": "truecolor"}, ColourDepth.PALETTE),
        ({"TERM": "screen.linux", "COLORTERM": "truecolor"}, ColourDepth.PALETTE),
        ({"TERM": "screen-256color", "COLORTERM": "truecolor"}, ColourDepth.TRUE),
        ({"TERM": "rxvt-16color"}, ColourDepth.PALETTE),
        ({"TERM": "unheard-of"}, ColourDepth.PALETTE),
        ({}, ColourDepth.PALETTE),
        ({"TERM": "xterm-256color"}, ColourDepth.INDEXED),
        ({"TERM": "tmux-256color", "COLORTERM": ""}, ColourDepth.INDEXED),
        ({"TERM": "alacritty"}, ColourDepth.INDEXED),
        ({"TERM": "st"}, ColourDepth.INDEXED),
        ({"TERM": "xterm-direct"}, ColourDepth.TRUE),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, ColourDepth.TRUE),
        ({"TERM": "xterm", "COLORTERM": "24bit", "NO_COLOR": ""}, ColourDepth.TRUE),
        ({"TERM": "vt220"}, ColourDepth.NONE),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, ColourDepth.NONE),
    ],
)
def test_the_environment_and_terminfo_say_which_colours_there_are(environ: dict[str, str], depth: ColourDepth) -> None:
    assert colour_depth(environ, COUNTS.get) is depth


def test_a_theme_of_our_own_colours_only_where_they_can_be_shown() -> None:
    assert theme_for(ColourDepth.TRUE, is_light=False) is theme_for(ColourDepth.INDEXED, is_light=False) is DARK
    assert theme_for(ColourDepth.TRUE, is_light=True) is LIGHT
    assert theme_for(ColourDepth.PALETTE, is_light=False) is theme_for(ColourDepth.NONE, is_light=False) is PALETTE_DARK
    assert theme_for(ColourDepth.PALETTE, is_light=True) is PALETTE_LIGHT
