"""Help page: sections of keys in columns, or only the rows that have the words that were typed."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_COLUMN_CELLS: Final = (0, 0, 44, 48)
"""The minimum width of a column, in cells, by the number of columns."""
GAP: Final = "   "
"""What is between two columns."""
MAX_KEYS_CELLS: Final = 14
"""The maximum width of the keys of most sections, in cells."""
MIN_TEXT_CELLS: Final = 8
"""The minimum width of the texts, in cells."""
_INDENT: Final = "  "

Lines = list[list[Span]]


class HelpSection(NamedTuple):
    """A section of the page."""

    heading: str
    rows: list[tuple[str, str]]
    """The keys or an expression, and what each is for."""
    max_keys_cells: int = MAX_KEYS_CELLS
    """The maximum width of the keys, in cells; longer ones are wrapped."""


def page_lines(sections: Sequence[HelpSection], words: str, width: int) -> tuple[Lines, int]:
    """Returns the page, and how many rows it has.

    Args:
        sections: the sections, in order: each is placed in the column that is the shortest so far.
        words: words that each row must have in its section's heading, its keys or its text; empty for all rows.
        width: the width of a line, in cells.
    """
    found = [*_found_sections(sections, words.casefold().split())]
    if not found:
        return [[Span("nothing matches; Esc shows all", "dim")]], 0
    count = max(
        number for number in range(1, 4) if number == 1 or _column_cells(width, number) >= MIN_COLUMN_CELLS[number]
    )
    column_cells = max(1, _column_cells(width, count))
    columns: list[Lines] = [[] for _ in range(count)]
    for section in found:
        column = min(columns, key=len)
        column += [*([[]] if column else []), *_section_lines(section, column_cells)]
    lines: Lines = []
    for parts in zip_longest(*columns, fillvalue=()):
        line: list[Span] = []
        for number, part in enumerate(parts):
            spans, used_cells = fit_spans(part, column_cells)
            is_last = number == count - 1
            line += spans if is_last else [*spans, Span(" " * (column_cells - used_cells) + GAP)]
        lines.append(line)
    return lines, sum(len(section.rows) for section in found)


def _column_cells(width: int, count: int) -> int:
    """Returns the width of each of so many columns, in cells."""
    return (width - (count - 1) * len(GAP)) // count


def _found_sections(sections: Sequence[HelpSection], words: Sequence[str]) -> Iterator[HelpSection]:
    """Yields the sections with the rows that have all words."""
    for section in sections:
        rows = [
            (keys, text)
            for keys, text in section.rows
            if all(word in f"{section.heading} {keys} {text}".casefold() for word in words)
        ]
        if rows:
            yield section._replace(rows=rows)


def _section_lines(section: HelpSection, width: int) -> Iterator[list[Span]]:
    """Yields the lines of a section: its heading, and each row with its texts in a column of their own."""
    yield [Span(section.heading, "accent")]
    keys_cells = min(section.max_keys_cells, max(cells(keys) for keys, _ in section.rows), max(1, width // 2))
    text_cells = max(MIN_TEXT_CELLS, width - keys_cells - 2 * len(_INDENT))
    for keys, text in section.rows:
        pairs = zip_longest(wrapped(keys, keys_cells), wrapped(text, text_cells), fillvalue="")
        for key_line, text_line in pairs:
            padding = " " * (keys_cells - cells(key_line))
            yield [Span(f"{_INDENT}{key_line}{padding}{_INDENT}"), Span(text_line, "dim")]
