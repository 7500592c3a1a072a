"""Replaces, inserts and removes parts of a text by position, such as lines and the items of an inline list."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

Span = tuple[int, int]
"""A half-open range of characters."""


@dataclass(slots=True)
class Splices:
    """Replacements for one text, none of which overlap."""

    text: str
    pieces: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, span: Span, new: str) -> None:
        """Add a replacement of a span by `new`."""
        self.pieces.append((*span, new))

    def insert(self, position: int, new: str) -> None:
        """Add an insertion of `new` at a position."""
        self.pieces.append((position, position, new))

    def result(self) -> str:
        """Returns the text with all replacements applied."""
        parts: list[str] = []
        end = 0
        for start, stop, new in sorted(self.pieces, key=lambda piece: piece[:2]):
            parts += [self.text[end:start], new]
            end = stop
        return "".join([*parts, self.text[end:]])


def line_start(text: str, position: int) -> int:
    """Returns the start of the line that contains a position."""
    return text.rfind("\n", 0, position) + 1


def line_end(text: str, position: int) -> int:
    """Returns the position after the line break of the line that contains a position, or the end of the text."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def line_break(text: str) -> str:
    """Returns the line break that the text uses."""
    position = text.find("\n")
    return "\r\n" if position > 0 and text[position - 1] == "\r" else "\n"


def line_span(text: str, span: Span) -> Span:
    """Returns the span of the lines that contain a span, line breaks included.

    If the last line of the text has no line break, the line break before the lines is included instead.
    """
    start, end = line_start(text, span[0]), line_end(text, span[1])
    if end == len(text) and not text.endswith("\n") and start > 0:
        start -= len(line_break(text))
    return start, end


def insert_line(splices: Splices, position: int, line: str) -> None:
    """Insert a line after another one.

    Args:
        splices: receives the insertion.
        position: the end of the other line, after its line break.
        line: the new line, without a line break.
    """
    text, newline = splices.text, line_break(splices.text)
    splices.insert(position, newline + line if position == len(text) and not text.endswith("\n") else line + newline)


def blank_before(text: str, position: int) -> str:
    """Returns the white space before a position."""
    start = position
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:position]


def prepend_inline(splices: Splices, span: Span, items: list[Span], words: list[str]) -> None:
    """Insert words before the items of an inline list, one on each line or all on one line, as the list is laid out.

    Args:
        splices: receives the insertion.
        span: the span of the list, brackets included.
        items: the spans of its items.
        words: the words as the format spells them.
    """
    text = splices.text
    if not items:
        splices.insert(span[0] + 1, ", ".join(words))
        return
    blank_text = blank_before(text, items[0][0])
    if "\n" in blank_text:
        separator = "," + blank_text
    else:
        separator_text = text[items[0][1] : items[1][0]] if len(items) > 1 else ", "
        separator = separator_text if separator_text.strip() == "," else ", "
    splices.insert(items[0][0], "".join(word + separator for word in words))


def drop_inline(splices: Splices, items: list[Span], end: int, count: int, comments: tuple[str, ...]) -> None:
    """Remove the first items of an inline list, with their separators; comments between them stay.

    Args:
        splices: receives the removals.
        items: the spans of all items.
        end: the position of the closing bracket.
        count: how many items to remove.
        comments: the characters that begin a comment in this format.
    """
    text = splices.text
    if items and count >= len(items) and "\n" in blank_before(text, items[0][0]):
        list_start = items[0][0] - len(blank_before(text, items[0][0]))
        separators = [text[left[1] : right[0]] for left, right in itertools.pairwise(items)]
        if (
            text[list_start - 1] == "["
            and not "".join([*separators, text[items[-1][1] : end]]).replace(",", "").strip()
        ):
            # The client put each item on its own line. Without the items, their white space would be a blank line.
            splices.replace((list_start, end), "")
            return
    for index in range(min(count, len(items))):
        start, stop = items[index]
        is_last = index + 1 == len(items)
        next_start = end if is_last else items[index + 1][0]
        separator_text = text[stop:next_start]
        if not is_last and not any(comment_start in separator_text for comment_start in comments):
            stop = next_start
        elif (comma_offset := _separator_offset(separator_text, comments)) >= 0:
            splices.replace((stop + comma_offset, stop + comma_offset + 1), "")
        splices.replace((start, stop), "")


def _separator_offset(text: str, comments: tuple[str, ...]) -> int:
    """Returns the position of the comma that separates two items, outside comments, or -1 if there is none."""
    position = 0
    while position < len(text):
        if text[position] == ",":
            return position
        comment_start = next((mark for mark in comments if text.startswith(mark, position)), None)
        if comment_start is None:
            position += 1
            continue
        comment_end = "*/" if comment_start == "/*" else "\n"
        end = text.find(comment_end, position + len(comment_start))
        position = len(text) if end < 0 else end + len(comment_end)
    return -1
