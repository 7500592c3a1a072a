"""Lines of readable text: wrapped, safe, and drawn on demand.

A text of 5 MB has 100,000 lines or more, so a line is one string, and its spans are made when it is drawn. Together,
the lines of a paragraph are exactly its text, so a search finds text that is split over two lines.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.on_demand import OnDemandSequence
from mcpproxy.wording.cells import cells, fit, is_narrow, pieces
from mcpproxy.wording.spans import Role, Span

MAX_TEXT_LINES: Final = 200_000
"""The maximum number of lines of one text."""
MAX_TEXT_CHARS: Final = 8 << 20
"""The maximum number of characters of one text; the rest is in the raw bytes."""
TAB_WIDTH: Final = 4
"""The distance between tab stops, in cells."""

_ROLES: Final[tuple[Role, ...]] = ("plain", "accent", "dim", "bad")
_JSON: Final = len(_ROLES)
_CONTINUATION: Final = 0x80
_HIDDEN_WARNING: Final = r"▲ hidden characters are shown as escapes, such as \u202e"
_MEMBER: Final = re.compile(r'("(?:[^"\\]|\\.)*"): ')


class TextLimitReached(Exception):
    """The text has reached its limit of lines or characters."""


class TextLines(OnDemandSequence[Sequence[Span]]):
    """The lines of a text, and the methods that write them."""

    def __init__(self, width: int) -> None:
        """Start with an empty text.

        Args:
            width: the width of a line, in cells.
        """
        self.width = max(8, width)
        self.has_hidden = False
        """Whether the text contains invisible characters, which are shown as escapes."""
        self._texts: list[str] = []
        self._indents = bytearray()
        self._kinds = bytearray()
        self._label_sizes: dict[int, int] = {}
        """The length of the label, in characters, for each line that begins with one."""
        self._characters = 0

    def __len__(self) -> int:
        return len(self._texts)

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        text, indent, kind = self._texts[at], " " * self._indents[at], self._kinds[at] & ~_CONTINUATION
        if len(text) > self.width:
            text = text.rstrip(" ")
        label_size = self._label_sizes.get(at)
        if label_size is not None:
            return (Span(indent), Span(text[:label_size], "accent"), Span(text[label_size:], _ROLES[kind]))
        if kind != _JSON:
            return (Span(indent), Span(text, _ROLES[kind]))
        member = _MEMBER.match(text) if not self._kinds[at] & _CONTINUATION else None
        if member is None:
            return (Span(indent), Span(text))
        return (Span(indent), Span(member[1], "accent"), Span(text[member.end(1) :]))

    def text(self, at: int) -> str:
        """A line without its indentation, but with the blank at which it was broken."""
        return self._texts[at]

    def indent(self, at: int) -> int:
        """The indentation of a line, in cells."""
        return self._indents[at]

    def is_continuation(self, at: int) -> bool:
        """Whether a line continues the line above."""
        return bool(self._kinds[at] & _CONTINUATION)

    # ---- writing

    def write_line(self, text: str, role: Role = "plain", indent: int = 0) -> None:
        """Write a line of mcpproxy's own text, wrapped; foreign text in it must be sanitised already.

        Raises:
            TextLimitReached: there is no room for it.
        """
        self._write_wrapped(text, _ROLES.index(role), indent, indent + 2)

    def write_labelled(
        self, label: str, text: str, indent: int = 0, role: Role = "plain", *, is_aligned: bool = False
    ) -> None:
        """Write a foreign label and a foreign text in one line; if they are aligned, the text continues below itself.

        Raises:
            TextLimitReached: there is no room for it.
        """
        number = len(self._texts)
        label = self._safe(label)
        hanging = indent + (cells(label) + 1 if is_aligned else 2)
        self._write_wrapped(f"{label} {self._safe(text)}" if text else label, _ROLES.index(role), indent, hanging)
        self._label_sizes[number] = min(len(label), len(self._texts[number]))

    def write_foreign(self, text: str, indent: int = 0, role: Role = "plain") -> None:
        """Write foreign text with its line ends.

        Raises:
            TextLimitReached: there is no room for all of it.
        """
        kind = _ROLES.index(role)
        for line in _split(text):
            self._write_wrapped(self._safe(line), kind, indent, indent)

    def write_json_line(self, text: str, indent: int = 0) -> None:
        """Write a line of JSON that is sanitised already.

        Raises:
            TextLimitReached: there is no room for it.
        """
        self._write_wrapped(text, _JSON, indent, indent + 2)

    def write_unlimited(self, text: str, indent: int = 0) -> None:
        """Write a line that is sanitised already, broken where it reaches the width; no limit applies."""
        kind = 0
        for piece in pieces(text, max(1, self.width - indent)):
            self._texts.append(piece)
            self._indents.append(indent)
            self._kinds.append(kind)
            kind = _CONTINUATION

    def insert_warning(self) -> None:
        """Insert a warning as the first line if the text contains invisible characters."""
        if self.has_hidden:
            self._texts.insert(0, fit(_HIDDEN_WARNING, self.width))
            self._indents.insert(0, 0)
            self._kinds.insert(0, _ROLES.index("bad"))
            self._label_sizes = {number + 1: size for number, size in self._label_sizes.items()}

    def write_cut_notice(self) -> None:
        """Add a line that refers to the raw text for the rest."""
        self._texts.append("… more: see raw")
        self._indents.append(0)
        self._kinds.append(_ROLES.index("bad"))

    def _safe(self, line: str) -> str:
        if "\t" in line:
            line = line.expandtabs(TAB_WIDTH)
        safe = sanitise(line, None)
        self.has_hidden = self.has_hidden or safe != line
        return safe

    def _write_wrapped(self, text: str, kind: int, indent: int, hanging: int) -> None:
        max_indent = self.width // 2
        indent, hanging = min(indent, max_indent), min(hanging, max_indent)
        self._characters += len(text)
        if self._characters > MAX_TEXT_CHARS:
            raise TextLimitReached
        for piece in wrap(text, self.width - indent, self.width - hanging):
            if len(self._texts) >= MAX_TEXT_LINES:
                raise TextLimitReached
            self._texts.append(piece)
            self._indents.append(indent)
            self._kinds.append(kind)
            kind, indent = kind | _CONTINUATION, hanging


def _split(text: str) -> Iterator[str]:
    """Yields the lines of a text one by one, as there may be millions; omits an empty last line."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        yield text[start : end - 1] if end > start and text[end - 1] == "\r" and end < len(text) else text[start:end]
        start = end + 1


def wrap(text: str, first: int, others: int | None = None) -> Iterator[str]:
    """Yields a text in pieces, broken after spaces; a space at the end of a piece may exceed the width.

    Args:
        text: sanitised text.
        first: the width of the first piece, in cells.
        others: the width of all other pieces, in cells; None for the same width.
    """
    start, width, is_plain = 0, first, is_narrow(text)
    while True:
        remaining = len(text) - start
        if is_plain:
            end = start + width
            if remaining <= width:
                break
        else:
            window = text[start : start + 2 * width]
            end = start + len(next(pieces(window, width)))
            if end >= len(text):
                break
        blank = text.rfind(" ", start, end + 1)
        if blank > start and not text[start:blank].isspace():
            end = blank + 1
        yield text[start:end]
        start, width = end, others or width
        if start >= len(text):
            return
    yield text[start:]
