"""The terminal's colours: makes Textual send only colours that the terminal can show.

Textual takes this from the name of the terminal when it is imported, knows only a few names, and turns colours into
greys instead of leaving them out; so its app is adjusted once it exists.
"""

from typing import Any

from rich.color import ColorSystem
from textual.app import App
from textual.filter import Monochrome, NoColor

from mcpproxy.tui.colours.depth import ColourDepth


def limit_colours(app: App[Any], depth: ColourDepth) -> None:
    """Make an app that does not run yet send only these colours."""
    app.no_color = depth is ColourDepth.NONE
    app._filters = [line_filter for line_filter in app._filters if not isinstance(line_filter, Monochrome | NoColor)]
    if app.no_color:
        app._filters.append(NoColor())
    # The palette's names are sent as they are in any case, and without colours, none are left.
    indexed = depth is ColourDepth.INDEXED
    app.console._color_system = ColorSystem.EIGHT_BIT if indexed else ColorSystem.TRUECOLOR
