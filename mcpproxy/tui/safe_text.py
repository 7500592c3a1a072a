"""Safe text: the only module that turns text into something that Textual draws.

Nearly every widget of Textual reads markup, and passes ESC, C1 and bidi characters on to the terminal. So no other
module of this package creates a `Content`, a `Segment`, a notification or a title; a test searches the sources for
them. All text that passes through here is sanitised, regardless of its origin: sanitising twice does no harm, but not
sanitising does.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from mcpproxy.sanitise import MAX_CELL_CHARS, escape, sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.spans import Role, Span

STYLES: Final[dict[Role, str]] = {
    "plain": "",
    "accent": "$accent",
    "server": "$server",
    "dim": "$dim-style",
    "warm": "bold $text-warning",
    "bad": "bold $text-error",
}

_EMOJI_SEQUENCE: Final = re.compile(
    "[\ufe0e\ufe0f\u200d]|(?<=[\u2190-\u2bff\U0001f000-\U0001faff])[\U0001f3fb-\U0001f3ff]"
    "|(?P<tone>[\U0001f3fb-\U0001f3ff])"
)
"""What is not drawn of a sequence of emoji, and skin tones that follow no emoji."""
MAX_TOAST_CHARS: Final = 300
MAX_TOAST_LINES: Final = 5
MAX_TOAST_LINE_CHARS: Final = 120
"""The maximum length of each line, if there are several."""
MIN_TOAST_S: Final = 4.0
"""How long a short message is shown, in seconds."""
MAX_TOAST_S: Final = 20.0
READ_CHARS_PER_S: Final = 15
"""How many characters a person reads per second, who has to find the message first."""


def role_styles(widget: Widget, base: Style, prefix: str) -> dict[Role, Style]:
    """Returns the style of each role on a base, from the widget's component classes such as `table--dim`."""
    return {role: base + widget.get_component_rich_style(f"{prefix}--{role}", partial=True) for role in STYLES}


def cursor_styles(widget: Widget, base: Style, prefix: str) -> dict[Role, Style]:
    """Returns the style of each role in the row at the cursor, by the class such as `table--cursor`."""
    cursor = base + widget.get_component_rich_style(f"{prefix}--cursor", partial=True)
    styles = role_styles(widget, cursor, prefix)
    if widget.app.native_ansi_color:
        # In reverse, the colours of roles would become backgrounds.
        return dict.fromkeys(styles, cursor)
    # Dim text on the colour of the cursor has too little contrast.
    return {**styles, "dim": styles["plain"]}


def drawable(text: str) -> str:
    """Returns sanitised text as it is drawn: only what every terminal draws in the same number of cells.

    Terminals disagree about the width of joined emoji, and of those with a skin tone or a presentation; a line would be
    shifted from there on. So emoji are drawn next to each other, in their plain form.
    """
    return text if text.isascii() else _EMOJI_SEQUENCE.sub(_plain_emoji, text)


def _plain_emoji(match: re.Match[str]) -> str:
    tone = match["tone"]
    return "" if tone is None else escape(tone)


def content(spans: str | Iterable[Span], limit: int = MAX_CELL_CHARS) -> Content:
    """Text with roles, for widgets that accept content; line feeds in the text become `\\n`."""
    parts = [Span(spans)] if isinstance(spans, str) else list(spans)
    return Content.assemble(*((drawable(sanitise(part.text, limit)), STYLES[part.role]) for part in parts))


def lines(rows: Iterable[str | Iterable[Span]]) -> Content:
    """Several rows, one below the other."""
    return Content("\n").join([content(row) for row in rows])


def segments(spans: Iterable[Span], width: int, styles: dict[Role, Style], *, right: bool = False) -> list[Segment]:
    """Spans in exactly `width` cells, clipped and padded."""
    parts: list[Segment] = []
    cells_left = width
    for span in spans:
        if cells_left <= 0:
            break
        full_text = drawable(sanitise(span.text))
        is_simple = full_text.isascii() and len(full_text) <= cells_left
        text = full_text if is_simple else fit(full_text, cells_left)
        size = len(text) if is_simple else cell_len(text)
        while size > cells_left and text:
            # Terminals disagree about a few symbols; text that is too wide by Textual's table must not move a border.
            text = text[:-1]
            size = cell_len(text)
        cells_left -= size
        parts.append(Segment(text, styles[span.role]))
        if text != full_text:
            # A wide character that was cut may leave a cell empty, which the next span must not use.
            break
    if cells_left > 0:
        padding = Segment(" " * cells_left, styles["plain"])
        parts = [padding, *parts] if right else [*parts, padding]
    return parts


def strip(parts: Sequence[Segment], width: int) -> Strip:
    """Returns segments of this module as a line; joins neighbours of the same style, as each costs about 20 bytes."""
    return Strip(Segment.simplify(parts), width)


def marked_strip(line: Strip, text: str, marks: Iterable[tuple[int, int, Style]]) -> Strip:
    """Returns a drawn line with other styles on parts of it.

    Args:
        line: the line.
        text: the text from which it was drawn.
        marks: the first character in the text, the one after the last, and the style; ascending.
    """
    parts: list[Segment] = []
    position = 0
    for start, end, style in marks:
        first_cell = cell_len(drawable(text[:start]))
        end_cell = min(cell_len(drawable(text[:end])), line.cell_length)
        if position <= first_cell < end_cell:
            parts += line.crop(position, first_cell)
            parts += (
                segment._replace(style=segment.style + style if segment.style is not None else style)
                for segment in line.crop(first_cell, end_cell)
            )
            position = end_cell
    return strip([*parts, *line.crop(position)], line.cell_length) if parts else line


def notify(app: App[None], text: str | Sequence[str], *, bad: bool = False) -> None:
    """Show a short message above the foot of the screen, long enough to be read; one that is shown already, once.

    Args:
        app: the app.
        text: the message, or its lines, of which the first are shown.
        bad: whether something failed.
    """
    all_lines = [text] if isinstance(text, str) else list(text)
    limit = MAX_TOAST_CHARS if len(all_lines) == 1 else MAX_TOAST_LINE_CHARS
    shown_lines = [sanitise(line, limit) for line in all_lines[:MAX_TOAST_LINES]]
    if len(all_lines) > MAX_TOAST_LINES:
        shown_lines.append(f"… and {len(all_lines) - MAX_TOAST_LINES:,} more")
    message = "\n".join(f"✗ {line}" if bad else line for line in shown_lines)
    timeout_s = min(MAX_TOAST_S, max(MIN_TOAST_S, len(message) / READ_CHARS_PER_S))
    for shown in [shown for shown in app._notifications if shown.message == message]:
        app._unnotify(shown, refresh=False)
    app.notify(message, markup=False, severity="error" if bad else "information", timeout=timeout_s)


def to_clipboard(app: App[None], text: str) -> None:
    """Copy text to the clipboard with OSC 52. The text is sent as base64, so nothing in it acts on the terminal."""
    app.copy_to_clipboard(text)


class SafeText(Static):
    """A widget that shows text, and only text."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__("", markup=False, id=id, classes=classes)
        self._drawn_content = content("")

    def show(self, spans: str | Iterable[Span]) -> None:
        """Show one line."""
        self._draw(content(spans))

    def show_lines(self, rows: Iterable[str | Iterable[Span]]) -> None:
        """Show several lines."""
        self._draw(lines(rows))

    def _draw(self, text: Content) -> None:
        """Draw a text that is not drawn already; lay out the screen again only if the widget's size depends on it."""
        if not text.is_same(self._drawn_content):
            self._drawn_content = text
            self.update(text, layout=self.styles.auto_dimensions)
