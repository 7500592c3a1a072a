"""Toasts: where short messages appear. They take lines from the screen above its foot, so they cover no row.

Textual lays its toasts over the corner of the screen. Here they are as wide as the screen, wrapped at words, and at
most half as high, so that an error is seen in ten lines, too.
"""

from typing import Final

from textual.widget import Widget

TOAST_CSS: Final = """
    TitledScreen { overflow: hidden; }
    ToastRack { layer: default; max-height: 50%; margin: 0; overflow: hidden; }
    ToastHolder { width: 100%; }
    Toast { width: 100%; max-width: 100%; padding: 0 1 0 0; margin: 0; background: $panel; text-wrap: wrap; }
    Toast.-information { border-left: solid $success; }
    Toast.-error { border-left: solid $error; color: $text-error; text-style: bold; }
"""


def keep_toasts_above(foot: Widget) -> None:
    """Place the toasts of a screen above its foot: both are docked at the bottom, where Textual does not stack."""
    for rack in foot.screen.query("ToastRack"):
        rack.styles.margin = (0, 0, foot.size.height, 0)
