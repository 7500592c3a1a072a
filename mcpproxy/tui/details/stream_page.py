"""Stream page: one page of a raw stream as lines: a sign for the side that sent a message, then its bytes as text."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from captures.verdict import Direction
from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.tui.data.raw_stream import RawStream, StreamPiece
from mcpproxy.tui.details.byte_pages import Page
from mcpproxy.tui.details.find import MAX_MATCHES, FlowingText, Matches, MatchPosition, Ranges, pattern_of
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span

SIGNS: Final[dict[Direction, str]] = {"c2s": "→", "s2c": "←"}
BAD_SIGN: Final = "✗"
"""What follows the sign of the side if its bytes are no message, as in the traffic."""
_SIGN_CELLS: Final = 3
ROLES: Final[dict[Direction, Role]] = {"c2s": "accent", "s2c": "server"}
_EMPTY: Final = "(empty)"
_GONE: Final = "gone: its recorder has deleted this part, or the file was changed or cut"


class StreamPage(Page):
    """A page of a stream. Reads the file."""

    def __init__(self, stream: RawStream, page: int, width: int, time_of: Callable[[int], str] | None = None) -> None:
        """Read the page.

        Args:
            stream: the stream.
            page: the number of the page, from 0; the last one if there are fewer.
            width: the width of a line, in cells.
            time_of: returns the time of a row as text; None to show no times.
        """
        self.page = max(0, min(page, stream.page_count - 1))
        self.key = (id(stream), width, time_of is not None)
        self._stream = stream
        self._pieces = list(stream.pieces_on(self.page))
        self._times = [time_of(piece.row) if time_of is not None and piece.is_start else "" for piece in self._pieces]
        self._margin = max(map(cells, self._times), default=0)
        self._margin += (self._margin > 0) + _SIGN_CELLS
        self._lines = TextLines(max(width, self._margin + 8))
        self._piece_of_line: list[int] = []
        self._first_lines: set[int] = set()
        for number, piece in enumerate(self._pieces):
            self._first_lines.add(len(self._lines))
            for line in _lines_of(piece):
                self._lines.write_unlimited(line, self._margin)
            self._piece_of_line += [number] * (len(self._lines) - len(self._piece_of_line))
        self._flow = FlowingText(self._lines)

    def __len__(self) -> int:
        return max(1, len(self._lines))

    @property
    def has_gaps(self) -> bool:
        """Whether some of its bytes can no longer be read."""
        return any(piece.raw is None for piece in self._pieces)

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        if not self._pieces:
            return [Span("no bytes", "dim")]
        number = self._piece_of_line[at]
        piece, text = self._pieces[number], self._lines.text(at)
        if at not in self._first_lines:
            return [Span(" " * self._margin), Span(text, ROLES[piece.side])]
        # A message that began on the page before has no sign again.
        sign = SIGNS[piece.side] if piece.is_start else "…"
        sign_role: Role = "bad" if piece.is_bad else ROLES[piece.side]
        shown_text = Span(text, "bad" if piece.raw is None else ROLES[piece.side])
        if piece.raw in (b"", b"\n") and piece.is_start:
            shown_text = Span(_EMPTY, "dim")
        return [
            Span(f"{self._times[number]:<{self._margin - _SIGN_CELLS}}", "dim"),
            Span(f"{sign}{BAD_SIGN if piece.is_bad else ' '} ", sign_role),
            shown_text,
        ]

    def row_at(self, line: int) -> int | None:
        """Returns the row whose bytes a line shows."""
        return self._pieces[self._piece_of_line[line]].row if 0 <= line < len(self._piece_of_line) else None

    def line_of_row(self, row: int) -> int:
        """Returns the line on which a row begins; the first line if it is not on this page."""
        pieces = self._pieces
        return next((line for line, number in enumerate(self._piece_of_line) if pieces[number].row == row), 0)

    # ---- searching

    def find(self, text: str, is_wanted: Callable[[], bool] = lambda: True) -> Matches:
        """Find a text in all pages; a match does not go beyond its page."""
        pattern, positions = re.compile(re.escape(text), re.IGNORECASE), list[MatchPosition]()
        for page in range(self._stream.page_count):
            if not is_wanted():
                break
            content = "\n".join(line for piece in self._stream.pieces_on(page) for line in _lines_of(piece))
            for match in pattern.finditer(content):
                if len(positions) >= MAX_MATCHES:
                    return self.with_ranges(text, Matches(positions=positions, is_cut=True))
                positions.append(MatchPosition(0, start=match.start(), page=page))
        return self.with_ranges(text, Matches(positions=positions))

    def with_ranges(self, text: str, matches: Matches) -> Matches:
        """Returns the matches of a text, with the ranges of those in this page."""
        pattern, ranges = pattern_of(text), Ranges()
        for match in pattern.finditer(self._flow.text) if pattern is not None else ():
            self._flow.add_ranges(ranges, *match.span())
        return matches._replace(pattern=pattern, ranges=ranges)

    def position_of(self, match: MatchPosition) -> MatchPosition:
        """Returns the line of a match in this page, and its first character there."""
        return self._flow.position_of(match.start)


def _lines_of(piece: StreamPiece) -> Sequence[str]:
    """Returns the lines of a piece; a line feed at its end begins no further line."""
    if piece.raw is None:
        return [_GONE]
    return [sanitise_bytes(line, None) for line in piece.raw.removesuffix(b"\n").split(b"\n")]
