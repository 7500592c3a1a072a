"""Replacements at positions of a text, and where the items of an inline list are inserted and removed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

Span = tuple[int, int]
"""A half-open range of characters."""


@dataclass(slots=True)
class Splices:
    """Replacements to make in one text, none of which overlap."""

    text: str
    pieces: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, span: Span, new: str) -> None:
        """Put `new` where the span is."""
        self.pieces.append((*span, new))

    def insert(self, at: int, new: str) -> None:
        """Put `new` at a position."""
        self.pieces.append((at, at, new))

    def result(self) -> str:
        """The text with all replacements made."""
        parts: list[str] = []
        end = 0
        for start, stop, new in sorted(self.pieces, key=lambda piece: piece[:2]):
            parts += [self.text[end:start], new]
            end = stop
        return "".join([*parts, self.text[end:]])


def line_start(text: str, at: int) -> int:
    """Where the line that contains this position begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The position after the line break of the line that contains a position, or the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def newline_of(text: str) -> str:
    """The line break that the text uses."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def whole_lines(text: str, span: Span) -> Span:
    """The lines that contain a span, with their line breaks; at an end of text without one, with the break before."""
    start, end = line_start(text, span[0]), line_end(text, span[1])
    if end == len(text) and not text.endswith("\n") and start > 0:
        start -= len(newline_of(text))
    return start, end


def insert_line(splices: Splices, at: int, line: str) -> None:
    """Insert a line, given without its break, after another; `at` is the end of that one, its break included."""
    text, newline = splices.text, newline_of(splices.text)
    splices.insert(at, newline + line if at == len(text) and not text.endswith("\n") else line + newline)


def blank_before(text: str, at: int) -> str:
    """The white space before a position."""
    start = at
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:at]


def prepend_inline(splices: Splices, span: Span, items: list[Span], words: list[str]) -> None:
    """Put words in front of the items of an inline list, laid out as the list is: one on each line, or all on one line.

    Args:
        splices: receives the insertion.
        span: the span of the list, brackets included.
        items: the spans of its items.
        words: as the format spells them.
    """
    text = splices.text
    if not items:
        splices.insert(span[0] + 1, ", ".join(words))
        return
    blank = blank_before(text, items[0][0])
    if "\n" in blank:
        separator = "," + blank
    else:
        between = text[items[0][1] : items[1][0]] if len(items) > 1 else ", "
        separator = between if between.strip() == "," else ", "
    splices.insert(items[0][0], "".join(word + separator for word in words))


def drop_inline(splices: Splices, items: list[Span], end: int, count: int, comments: tuple[str, ...]) -> None:
    """Remove the first items of an inline list, with their separators; comments between them stay.

    Args:
        splices: receives the removals.
        items: the spans of all items.
        end: where the closing bracket is.
        count: how many to remove.
        comments: the characters that begin a comment in this format.
    """
    text = splices.text
    if items and count >= len(items) and "\n" in blank_before(text, items[0][0]):
        opening = items[0][0] - len(blank_before(text, items[0][0]))
        gaps = [text[left[1] : right[0]] for left, right in itertools.pairwise(items)]
        if text[opening - 1] == "[" and not "".join([*gaps, text[items[-1][1] : end]]).replace(",", "").strip():
            # A list that its client has laid out: without items, the white space around them would be a blank line.
            splices.replace((opening, end), "")
            return
    for index in range(min(count, len(items))):
        start, stop = items[index]
        last = index + 1 == len(items)
        following = end if last else items[index + 1][0]
        between = text[stop:following]
        if not last and not any(mark in between for mark in comments):
            stop = following
        elif (comma := _comma(between, comments)) >= 0:
            splices.replace((stop + comma, stop + comma + 1), "")
        splices.replace((start, stop), "")


def _comma(between: str, comments: tuple[str, ...]) -> int:
    """The position of the comma that separates two items, outside of comments; -1 if there is none."""
    at = 0
    while at < len(between):
        if between[at] == ",":
            return at
        mark = next((mark for mark in comments if between.startswith(mark, at)), None)
        if mark is None:
            at += 1
            continue
        closing = "*/" if mark == "/*" else "\n"
        closed = between.find(closing, at + len(mark))
        at = len(between) if closed < 0 else closed + len(closing)
    return -1
