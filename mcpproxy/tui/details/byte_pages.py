"""Byte pages: the bytes of a row as raw text or as hex, page by page, and a search in all pages.

A frame can be a gigabyte long, so a search goes through its pages one by one, and keeps only the positions of the
matches. Which characters of a line match is computed only for the page that is shown.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.tui.details.find import MAX_MATCHES, FlowingText, Matches, MatchPosition, Ranges, pattern_of
from mcpproxy.tui.on_demand import OnDemandSequence
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.wording.spans import Span

PAGE_BYTES: Final = 64 << 10
"""How many bytes a page contains."""
MAX_OVERLAP_BYTES: Final = 1 << 10
"""How far a match may extend into the next page, in bytes."""
_HEX: Final = re.compile(r"(?:[0-9a-f]{2}\s?)+", re.IGNORECASE)
_OFFSET_CELLS: Final = len("00000000  ")


class Page(OnDemandSequence[Sequence[Span]]):
    """A page of something long, and a search in all of its pages."""

    page: int
    """The number of the page, from 0."""
    key: object
    """Equal for all pages of one thing in the same view and width."""

    @abstractmethod
    def find(self, text: str, is_wanted: Callable[[], bool] = lambda: True) -> Matches:
        """Find a text in all pages; in each `MatchPosition`, `start` counts from the beginning of the page.

        Args:
            text: the text that was typed; not empty.
            is_wanted: returns False once the result is no longer needed.
        """

    @abstractmethod
    def with_ranges(self, text: str, matches: Matches) -> Matches:
        """Returns the matches of a text, with the ranges of those in this page."""

    @abstractmethod
    def position_of(self, match: MatchPosition) -> MatchPosition:
        """Returns the line of a match in this page, and its first character there."""


class BytePage(Page):
    """One page of the bytes of a row, and a search in all pages."""

    def __init__(self, pieces: Callable[[], Iterable[bytes]], page: int, key: object) -> None:
        """Read the page.

        Args:
            pieces: returns the bytes of the row, in pieces of any size.
            page: the number of the page, from 0; the last one if there are fewer.
            key: equal for all pages of one row in the same view and width.
        """
        self.page, self.key = 0, key
        self._pieces = pieces
        self._part = self._overlap = b""
        for number, (part, after) in enumerate(_pages(pieces())):
            self.page, self._part, self._overlap = number, part, after
            if number == page:
                break

    # ---- for subclasses

    @abstractmethod
    def _pattern(self, text: str) -> re.Pattern[Any]:
        """Returns the pattern for a typed text."""

    @abstractmethod
    def _content(self, part: bytes) -> Any:
        """Returns the content in which the pattern is searched for."""

    @abstractmethod
    def _ranges(self, spans: Iterable[tuple[int, int]]) -> Ranges:
        """Returns the characters of the matches in this page, by line."""

    # ---- searching

    def find(self, text: str, is_wanted: Callable[[], bool] = lambda: True) -> Matches:
        """Find a text in all pages; in each `MatchPosition`, `start` counts from the beginning of the page.

        Args:
            text: the text that was typed; not empty.
            is_wanted: returns False once the result is no longer needed.
        """
        pattern, positions = self._pattern(text), list[MatchPosition]()
        for page, (part, after) in enumerate(_pages(self._pieces())):
            if not is_wanted():
                break
            for start, _ in self._spans(pattern, part, after):
                if len(positions) >= MAX_MATCHES:
                    return self.with_ranges(text, Matches(positions=positions, is_cut=True))
                positions.append(MatchPosition(0, start=start, page=page))
        return self.with_ranges(text, Matches(positions=positions))

    def with_ranges(self, text: str, matches: Matches) -> Matches:
        """Returns the matches of a text, with the ranges of those in this page."""
        pattern = self._pattern(text)
        ranges = self._ranges(self._spans(pattern, self._part, self._overlap))
        return matches._replace(pattern=pattern_of(text), ranges=ranges)

    def _spans(self, pattern: re.Pattern[Any], part: bytes, after: bytes) -> Iterator[tuple[int, int]]:
        """Yields the matches that begin in a page."""
        content = self._content(part)
        size = len(content)
        for match in pattern.finditer(content + self._content(after)):
            if match.start() >= size:
                return
            yield match.span()


class RawPage(BytePage):
    """Bytes as text, wrapped; line feeds begin a new line."""

    def __init__(self, pieces: Callable[[], Iterable[bytes]], page: int, width: int, row: int) -> None:
        """Read the page, as `BytePage` does; `width` is the width of a line, in cells."""
        super().__init__(pieces, page, ("raw", row, width))
        self._lines = TextLines(width)
        for line in self._content(self._part).split("\n") if self._part else ():
            self._lines.write_unlimited(line)
        self._flow = FlowingText(self._lines)

    def __len__(self) -> int:
        return max(1, len(self._lines))

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        return self._lines[at] if len(self._lines) else [Span("no bytes", "dim")]

    def _pattern(self, text: str) -> re.Pattern[Any]:
        return re.compile(re.escape(text), re.IGNORECASE)

    def _content(self, part: bytes) -> str:
        return "\n".join(sanitise_bytes(line, None) for line in part.split(b"\n"))

    def _ranges(self, spans: Iterable[tuple[int, int]]) -> Ranges:
        ranges: Ranges = {}
        for start, end in spans:
            self._flow.add_ranges(ranges, start, end)
        return ranges

    def position_of(self, match: MatchPosition) -> MatchPosition:
        """Returns the line of a match in this page, and its first character there."""
        return self._flow.position_of(match.start)


class HexPage(BytePage):
    """Bytes as hexadecimal numbers and as ASCII."""

    def __init__(self, pieces: Callable[[], Iterable[bytes]], page: int, width: int, row: int) -> None:
        """Read the page, as `BytePage` does; `width` is the width of a line, in cells."""
        self._step = 16 if width >= 76 else 8 if width >= 44 else 4
        super().__init__(pieces, page, ("hex", row, self._step))

    def __len__(self) -> int:
        return max(1, -(-len(self._part) // self._step))

    def item(self, at: int) -> Sequence[Span]:
        """The spans of a line."""
        if not self._part:
            return [Span("no bytes", "dim")]
        first = at * self._step
        part = self._part[first : first + self._step]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in part)
        hex_digits = f"{part.hex(' '):<{self._step * 3}} "
        return [Span(f"{self.page * PAGE_BYTES + first:08x}  ", "dim"), Span(hex_digits), Span(characters, "accent")]

    def _pattern(self, text: str) -> re.Pattern[Any]:
        """Returns the pattern for a text, in upper or lower case, or for bytes as hexadecimal numbers."""
        variants = (
            re.escape(variant.encode("utf-8", "surrogatepass")) for variant in (text, text.lower(), text.upper())
        )
        pattern = b"(?i:" + b"|".join(variants) + b")"
        if _HEX.fullmatch(text):
            pattern += b"|" + re.escape(bytes.fromhex(text))
        return re.compile(pattern, re.DOTALL)

    def _content(self, part: bytes) -> bytes:
        return part

    def _ranges(self, spans: Iterable[tuple[int, int]]) -> Ranges:
        ranges: Ranges = {}
        for start, end in spans:
            for line in range(start // self._step, min(-(-end // self._step), len(self))):
                first, last = max(0, start - line * self._step), min(self._step, end - line * self._step)
                characters_start = _OFFSET_CELLS + 3 * self._step + 1
                ranges.setdefault(line, []).append((_OFFSET_CELLS + 3 * first, _OFFSET_CELLS + 3 * last - 1))
                ranges[line].append((characters_start + first, characters_start + last))
        return {line: sorted(marks) for line, marks in ranges.items()}

    def position_of(self, match: MatchPosition) -> MatchPosition:
        """Returns the line of a match in this page, and its first character there."""
        line, column = divmod(match.start, self._step)
        return MatchPosition(line, start=_OFFSET_CELLS + 3 * column)


def _pages(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yields each page, and the beginning of the next."""
    buffer = b""
    for piece in pieces:
        buffer += piece
        offset = 0
        while len(buffer) - offset >= PAGE_BYTES + MAX_OVERLAP_BYTES:
            yield (
                buffer[offset : offset + PAGE_BYTES],
                buffer[offset + PAGE_BYTES : offset + PAGE_BYTES + MAX_OVERLAP_BYTES],
            )
            offset += PAGE_BYTES
        buffer = buffer[offset:]
    while len(buffer) > PAGE_BYTES:
        yield buffer[:PAGE_BYTES], buffer[PAGE_BYTES : PAGE_BYTES + MAX_OVERLAP_BYTES]
        buffer = buffer[PAGE_BYTES:]
    yield buffer, b""
