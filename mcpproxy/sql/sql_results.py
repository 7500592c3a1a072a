"""Formats SQL results: a table for people, or JSON, CSV and Markdown that are safe to open.

Every format streams its rows and keeps few of them. In tables and Markdown, text from a capture is shown as `sanitise`
shows all untrusted text. JSON and CSV keep it unchanged, except for CSV cells that a spreadsheet would run.
"""

import json
import re
from binascii import b2a_base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import islice
from math import floor, isfinite, log10
from typing import Any, Final, NamedTuple

import orjson

from analysis.store.sandbox.protocol import Column, Value
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.sql.stamps import TimestampPaths, json_timestamp, timestamp_paths, with_json_timestamps
from mcpproxy.wording.cells import cells, fit, fit_ends
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.units import ms_figure, ms_text, nanoseconds
from mcpproxy.wording.wrapping import wrapped

MAX_PROBE_ROWS: Final = 1000
"""The maximum number of rows that determine the widths of a table's columns."""
MAX_PROBE_CELLS: Final = 1_000_000
"""The maximum number of cells in these rows, which are in memory at the same time."""
MIN_COLUMN_WIDTH: Final = 12
"""The minimum width of a text or a column name next to others, in cells."""
MAX_LISTED_ROWS: Final = 2
"""The maximum number of rows that are written as lists of values if a table has no room for all columns."""
MAX_NAMED_COLUMNS: Final = 50
"""The maximum number of columns that are named below a table; a list of thousands would be unreadable."""

_DROPPED_FIRST: Final = ("capture", "session", "at_ms", "response", "time")
"""Columns that say where a row comes from: if there is no room for all, they are dropped first, in this order."""
_DROPPED_LAST: Final = "text"
"""The column that is dropped last."""
_HASH: Final = re.compile(r"[0-9a-f]{32,128}")
_HASH_CELLS: Final = 8
_PATH: Final = re.compile(r"[^\s{\[]\S*/\S*|/\S*")
"""A file, a URI, or a method."""

_NUMBER_KINDS: Final = ("decimal", "float", "integer")
_GAP: Final = 2
_MAX_CELL_CHARS: Final = 200
"""The maximum number of characters of a cell that a table shows, regardless of the terminal's width."""


def names_of(columns: Iterable[Column]) -> list[str]:
    """The columns' names, each unique regardless of case: a second `a` is `a_2`."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for column in columns:
        name, folded_name = column.name, column.name.casefold()
        while name.casefold() in names:
            counts[folded_name] = counts.get(folded_name, 1) + 1
            name = f"{column.name}_{counts[folded_name]}"
        names[name.casefold()] = name
    return list(names.values())


# ---- for people


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]], width: int, style: Style) -> Iterator[str]:
    """Yields the lines of a table that fits, and the names of left-out columns; few wide rows get a line per value."""
    formatters = [cell_formatter(column) for column in columns]
    shown_rows = ([format_cell(cell) for format_cell, cell in zip(formatters, row, strict=True)] for row in rows)
    probe = list(islice(shown_rows, _max_probe_rows(columns)))
    head = [Span(sanitise(column.name, _MAX_CELL_CHARS), "dim") for column in columns]
    layout = _layout_of(columns, head, probe, width)
    count = 0
    is_list = len(layout.widths) < len(columns) and 0 < len(probe) <= MAX_LISTED_ROWS
    if is_list:
        for row in _all_rows(probe, shown_rows):
            count += 1
            yield style.paint([Span(f"row {count}", "accent")])
            yield from _list_lines(head, row, layout, width, style)
    else:
        yield _row_line(head, layout, style, is_head=True)
        for row in _all_rows(probe, shown_rows):
            count += 1
            yield _row_line(row, layout, style)
    yield style.paint([Span(count_text(count, "row"), "dim")])
    if not is_list:
        for note in layout.notes:
            yield from (style.paint([Span(line, "dim")]) for line in wrapped(note, width))


def reference_lines(
    columns: Sequence[Column], rows: Iterable[Sequence[Value]], width: int, style: Style
) -> Iterator[str]:
    """Yields the lines of an aligned table of mcpproxy's own words, whose last column is wrapped."""
    all_rows = [[column.name for column in columns], *([str(cell) for cell in row] for row in rows)]
    *widths, _ = (max(map(len, column)) for column in zip(*all_rows, strict=True))
    margin = sum(size + _GAP for size in widths)
    for number, (*names, text) in enumerate(all_rows):
        prefix = "".join(name.ljust(size + _GAP) for name, size in zip(names, widths, strict=True))
        for line in wrapped(text, max(2 * MIN_COLUMN_WIDTH, width - margin)):
            yield style.paint([Span(prefix + line, "plain" if number else "dim")])
            prefix = " " * margin


def _max_probe_rows(columns: Sequence[Column]) -> int:
    """The maximum number of rows to examine."""
    return min(MAX_PROBE_ROWS, max(MAX_LISTED_ROWS + 1, MAX_PROBE_CELLS // max(1, len(columns))))


class _TableLayout(NamedTuple):
    """Which columns a table shows, and how wide they are."""

    widths: dict[int, int]
    """The width of each shown column in cells, by its position in the result."""
    right_aligned: set[int]
    """The right-aligned columns, which contain numbers. Numbers are never cut, but the columns' names may be."""
    shorteners: dict[int, Callable[[str], str]]
    """The functions that shorten values of columns that do not fit."""
    notes: list[str]
    """Remarks on what was left out."""


def _all_rows(probe: list[list[Span]], remaining_rows: Iterator[list[Span]]) -> Iterator[list[Span]]:
    yield from probe
    probe.clear()
    yield from remaining_rows


def _layout_of(columns: Sequence[Column], head: list[Span], probe: list[list[Span]], width: int) -> _TableLayout:
    """The layout with all columns, if necessary with shortened times and hashes, or with the most important columns.

    A value that is the same in all rows goes below the table, where dropped columns are named as well.
    """
    positions = list(range(len(columns)))
    right_aligned = {position for position in positions if columns[position].kind in _NUMBER_KINDS}
    natural_widths = {position: max(cells(row[position].text) for row in [head, *probe]) for position in positions}
    shorteners: dict[int, Callable[[str], str]] = {}
    total_width = sum(natural_widths.values()) + _GAP * (len(positions) - 1)
    for position, shorten in _shorteners(columns, probe):
        if total_width > width:
            shorteners[position] = shorten
            total_width -= natural_widths[position]
            natural_widths[position] = max(
                cells(head[position].text), *(cells(shorten(row[position].text)) for row in probe)
            )
            total_width += natural_widths[position]
    # Column names are untrusted, and may be longer than any value: without an alias, the name is the whole expression.
    # A list has more room for them than a table.
    is_list_better = 0 < len(probe) <= MAX_LISTED_ROWS and len(positions) > 1
    firm_widths = {
        position: natural_widths[position]
        for position in shorteners
        if natural_widths[position] <= 2 * MIN_COLUMN_WIDTH
    }
    for position in right_aligned:
        firm_widths[position] = (
            natural_widths[position] if is_list_better else max((cells(row[position].text) for row in probe), default=0)
        )
    min_widths = {
        position: min(natural_widths[position], max(firm_widths.get(position, 0), MIN_COLUMN_WIDTH))
        for position in positions
    }
    notes: list[str] = []
    if _excess(positions, min_widths, width) > 0 and MAX_LISTED_ROWS < len(probe) < _max_probe_rows(columns):
        constant_columns = {position for position in positions if len({row[position].text for row in probe}) == 1}
        if constant_columns and len(constant_columns) < len(positions):
            positions = [position for position in positions if position not in constant_columns]
            constant_texts = [
                f"{head[position].text} {fit(probe[0][position].text, 40)}" for position in sorted(constant_columns)
            ]
            notes.append(f"in all rows: {_joined_names(constant_texts)}")
    dropped_columns = _columns_to_drop(positions, min_widths, head, width)
    if dropped_columns:
        positions = [position for position in positions if position not in dropped_columns]
        columns_text = count_text(len(dropped_columns), "more column")
        names = _joined_names([head[position].text for position in sorted(dropped_columns)])
        notes.append(f"{columns_text} did not fit; --format json has them: {names}")
    return _TableLayout(_column_widths(positions, natural_widths, firm_widths, width), right_aligned, shorteners, notes)


def _joined_names(words: Sequence[str]) -> str:
    """Join words; of too many, only the first, followed by the number of the others."""
    omitted_count = len(words) - MAX_NAMED_COLUMNS
    return ", ".join(words[:MAX_NAMED_COLUMNS]) + (f" and {omitted_count:,} more" if omitted_count > 0 else "")


def _shorteners(columns: Sequence[Column], probe: list[list[Span]]) -> Iterator[tuple[int, Callable[[str], str]]]:
    """Yields the columns whose values can be shortened, and how: times lose their fractions, hashes their ends."""
    for position, column in enumerate(columns):
        if column.kind == "time" and column.type.startswith("TIMESTAMP") and probe:
            yield position, _without_fraction
    for position, column in enumerate(columns):
        # A column that is shortened is no longer squeezed, so no long text may be among the hashes.
        if (
            column.kind == "text"
            and probe
            and all(_HASH.fullmatch(row[position].text) or _is_null(row[position]) for row in probe)
        ):
            yield position, _start_of_hash


def _is_null(cell: Span) -> bool:
    return cell == Span("NULL", "dim")


def _without_fraction(text: str) -> str:
    return re.sub(r"\.\d+", "", text, count=1)


def _start_of_hash(text: str) -> str:
    return text[:_HASH_CELLS] if _HASH.fullmatch(text) else text


def _importance(name: str, position: int) -> tuple[int, int]:
    """How important a column is, as a sort key: later columns are less important than earlier ones."""
    if name in _DROPPED_FIRST:
        return 0, _DROPPED_FIRST.index(name)
    return 2 if name == _DROPPED_LAST else 1, -position


def _columns_to_drop(positions: list[int], min_widths: dict[int, int], head: list[Span], width: int) -> set[int]:
    """The least important columns, for which there is no room; one always stays."""
    excess = _excess(positions, min_widths, width)
    dropped_columns: set[int] = set()
    for position in sorted(positions, key=lambda position: _importance(head[position].text, position))[:-1]:
        if excess <= 0:
            break
        excess -= min_widths[position] + _GAP
        dropped_columns.add(position)
    return dropped_columns


def _excess(positions: list[int], min_widths: dict[int, int], width: int) -> int:
    """The number of cells by which the columns are too wide."""
    return sum(min_widths[position] for position in positions) + _GAP * (len(positions) - 1) - width


def _column_widths(
    positions: list[int], natural_widths: dict[int, int], firm_widths: dict[int, int], width: int
) -> dict[int, int]:
    """The width of each column.

    Narrow columns get the width that they need, and the others share the rest. The firm part of a column is not shared.
    """
    room = width - _GAP * (len(positions) - 1)

    def widths_at(level: int) -> dict[int, int]:
        return {
            position: max(1, min(natural_widths[position], max(firm_widths.get(position, 0), level)))
            for position in positions
        }

    level = bisect_right(range(width + 1), room, key=lambda level: sum(widths_at(level).values())) - 1
    widths, wider_widths = widths_at(level), widths_at(level + 1)
    growing = [
        position
        for position in sorted(positions, key=lambda position: natural_widths[position])
        if wider_widths[position] > widths[position]
    ]
    # Less than one cell is left for each of these columns.
    for position in growing[len(growing) - max(0, room - sum(widths.values())) :]:
        widths[position] += 1
    return widths


def _list_lines(head: list[Span], row: list[Span], layout: _TableLayout, width: int, style: Style) -> Iterator[str]:
    """Yields the lines of one row, a line for each value."""
    margin = min(max(cells(name.text) for name in head), max(MIN_COLUMN_WIDTH, width // 2))
    label_room = width - 2 * _GAP - max((cells(row[position].text) for position in layout.right_aligned), default=0)
    if label_room > 0:
        margin = min(margin, label_room)
    for position, (name, value) in enumerate(zip(head, row, strict=True)):
        label = fit(name.text, margin)
        text = (
            value.text
            if position in layout.right_aligned
            else _cut(value.text, max(1, width - margin - 2 * _GAP), None)
        )
        blanks = " " * (margin - cells(label) + _GAP)
        yield style.paint([Span("  "), Span(label, "dim"), Span(blanks), Span(text, value.role)]).rstrip()


def _row_line(row: list[Span], layout: _TableLayout, style: Style, *, is_head: bool = False) -> str:
    spans: list[Span] = []
    for position, width in layout.widths.items():
        is_right, text = position in layout.right_aligned, row[position].text
        if is_head or not is_right:
            text = _cut(text, width, None if is_head else layout.shorteners.get(position))
        cell, blanks = Span(text, row[position].role), Span(" " * (width - cells(text)))
        spans += [Span(" " * _GAP), *((blanks, cell) if is_right else (cell, blanks))]
    return style.paint(spans[1:]).rstrip()


def _cut(text: str, width: int, shorten: Callable[[str], str] | None) -> str:
    """Returns as much of a text as fits; paths, URIs and methods keep their end."""
    if shorten is not None:
        text = shorten(text)
    return fit_ends(text, width) if _PATH.fullmatch(text) else fit(text, width)


def cell_formatter(column: Column, limit: int = _MAX_CELL_CHARS) -> Callable[[Value], Span]:
    """Returns a function that writes a value of a column for people; text and bytes in at most `limit` characters."""
    format_text: Callable[..., str] = _blob_cell if column.kind == "blob" else _text_cell
    format_value: Callable[[Any], str] = _TABLE_FORMATTERS.get(column.kind) or partial(format_text, limit=limit)
    if column.kind == "integer" and column.name.endswith("_ns"):
        format_value = ms_text
    elif column.kind == "float" and column.name.endswith("_ms"):
        format_value = _milliseconds

    def format_cell(value: Value) -> Span:
        return Span("NULL", "dim") if value is None else Span(format_value(value))

    return format_cell


def _text_cell(value: Any, limit: int) -> str:
    return sanitise(str(value), limit)


def _blob_cell(value: bytes, limit: int) -> str:
    return sanitise_bytes(value, limit)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def number_text(value: float) -> str:
    """Returns a number with six significant digits, and with an exponent only if it is very large or small."""
    if not isfinite(value) or value == 0 or not 1e-6 <= abs(value) < 1e15:
        return f"{value:g}"
    digits = max(0, 5 - floor(log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _milliseconds(value: float) -> str:
    return ms_figure(nanoseconds(value)) if abs(value) < _MAX_PLAIN_MS else f"{value:g}"


_MAX_PLAIN_MS: Final = 1e15
"""The number of milliseconds from which an exponent is used."""
_TABLE_FORMATTERS: Final[Mapping[str, Callable[[Any], str]]] = {"boolean": _boolean, "float": number_text}


# ---- JSON


def json_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """Yields one object per line.

    BLOBs are base64, timestamps are UTC and end in Z, decimals and large integers are numbers with all their digits,
    NaN and infinities are null. JSON, lists, structs and maps are written as JSON, unchanged except for timestamps.
    """
    names = names_of(columns)
    conversions = [
        (position, convert)
        for position, column in enumerate(columns)
        if (convert := _json_conversion(column)) is not None
    ]
    integer_conversions = [
        (position, _json_number) for position, column in enumerate(columns) if column.kind == "integer"
    ]
    for row in rows:
        cells = _converted(row, conversions)
        try:
            line = orjson.dumps(dict(zip(names, cells, strict=True)))
        except orjson.JSONEncodeError:
            # A value is an integer of more than 64 bits.
            line = orjson.dumps(dict(zip(names, _converted(cells, integer_conversions), strict=True)))
        yield line.decode()


def _converted(row: Sequence[Any], conversions: Sequence[tuple[int, Callable[[Any], Any]]]) -> Sequence[Any]:
    if not conversions:
        return row
    cells = list(row)
    for position, convert in conversions:
        if cells[position] is not None:
            cells[position] = convert(cells[position])
    return cells


def _json_conversion(column: Column) -> Callable[[Any], Any] | None:
    """The conversion that a value needs before orjson writes it, or None if it needs none."""
    if column.kind == "time" and column.type.startswith("TIMESTAMP"):
        return json_timestamp
    if column.kind == "json" and (inside := timestamp_paths(column.type)) is not None:
        return partial(_json_stamped, inside=inside)
    return _JSON_CONVERSIONS.get(column.kind)


def _json_blob(value: Any) -> str:
    return b2a_base64(value, newline=False).decode()


def _json_number(value: Any) -> orjson.Fragment | None:
    return orjson.Fragment(str(value)) if not isinstance(value, Decimal) or value.is_finite() else None


def _json_nested(value: Any) -> Any:
    """Returns JSON text unchanged if every reader accepts it, else with null for NaN; other text becomes a string."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        try:
            return orjson.Fragment(json.dumps(json.loads(value, parse_constant=lambda _: None)))
        except (ValueError, RecursionError):
            return value
    # CR and LF are whitespace outside strings, and cannot occur inside strings.
    return orjson.Fragment(value.replace("\r", " ").replace("\n", " "))


def _json_stamped(value: Any, inside: TimestampPaths) -> Any:
    return _json_nested(with_json_timestamps(value, inside))


_JSON_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "blob": _json_blob,
    "decimal": _json_number,
    "json": _json_nested,
}


# ---- CSV

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""The beginnings of a cell of text that some spreadsheet runs as a formula, at once or after splitting the cell."""


def csv_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """Yields lines of RFC 4180 with their CRLF: NULL is an empty cell, empty text is `""`, BLOBs are hexadecimal."""
    yield ",".join(csv_text(name) for name in names_of(columns)) + "\r\n"
    formatters = [_CSV_FORMATTERS.get(column.kind, csv_text) for column in columns]
    for row in rows:
        yield (
            ",".join(
                "" if cell is None else format_cell(cell) for format_cell, cell in zip(formatters, row, strict=True)
            )
            + "\r\n"
        )


def csv_text(value: Any) -> str:
    """Returns a text cell that no spreadsheet treats as a formula: a leading quote prevents that."""
    text = str(value)
    if text.startswith(_FORMULA_STARTS):
        text = f"'{text}"
    # A program that splits lines at other characters keeps a quoted cell whole only if it is the first on its line. The
    # documentation warns about the other cells.
    return '"' + text.replace('"', '""') + '"' if not text or re.search(r"[^\w.:/ -]|^\s|\s$", text) else text


# BLOBs are not written as base64, which may begin with a `+`.
_CSV_FORMATTERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "blob": bytes.hex,
    "boolean": _boolean,
    "decimal": str,
    "float": str,
    "integer": str,
}


# ---- Markdown


def markdown_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """Yields the lines of a GitHub Markdown table whose cells contain no active markup; NULL is an empty cell."""
    yield f"| {' | '.join(markdown_text(column.name) for column in columns)} |"
    yield f"|{'|'.join('---:' if column.kind in _NUMBER_KINDS else '---' for column in columns)}|"
    formatters = [cell_formatter(column) for column in columns]
    for row in rows:
        cell_texts = (
            "" if cell is None else markdown_text(format_cell(cell).text)
            for format_cell, cell in zip(formatters, row, strict=True)
        )
        yield f"| {' | '.join(cell_texts)} |"


def markdown_text(text: str) -> str:
    """Returns untrusted text, escaped so that nothing in it is markup, a link or a mention."""
    escaped = re.sub(r"([\\`*_\[\]<>|~&$#!{}()])", r"\\\1", sanitise(text, None))
    # GitHub turns bare addresses into links, and what follows an @ into mentions.
    escaped = re.sub(r"(?i)\b(www)\.", r"\1&#46;", escaped.replace("://", "&#58;//"))
    return escaped.replace("@", "&#64;<!-- -->")
