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
from mcpproxy.sql.stamps import TimestampPaths, inside_of, stamp, stamped
from mcpproxy.wording.cells import cells, fit, fit_ends
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.units import ms_figure, ms_text, nanoseconds
from mcpproxy.wording.wrapping import wrapped

PROBE: Final = 1000
"""How many rows decide the widths of a table's columns."""
PROBED: Final = 1_000_000
"""The maximum number of cells in these rows, which are in memory at the same time."""
NARROWEST: Final = 12
"""The least width, in cells, of a text or column name next to others."""
FEW: Final = 2
"""Up to this many rows are written as lists of values if a table has no room for all columns."""
NAMED: Final = 50
"""How many columns are named below a table; nobody would read a list of thousands."""

_DROPPED_FIRST: Final = ("capture", "session", "at_ms", "response", "time")
"""Columns that say where a row comes from: if there is no room for all, they are dropped first, in this order."""
_MOST_MISSED: Final = "text"
"""The column that is dropped last."""
_HASH: Final = re.compile(r"[0-9a-f]{32,128}")
_HASH_CELLS: Final = 8
_PATH: Final = re.compile(r"[^\s{\[]\S*/\S*|/\S*")
"""A file, a URI, or a method."""

_NUMBERS: Final = ("decimal", "float", "integer")
_GAP: Final = 2
_CELL: Final = 200
"""How many characters of a cell a table may show, however wide the terminal is."""


def names_of(columns: Iterable[Column]) -> list[str]:
    """The columns' names, each unique regardless of case: a second `a` is `a_2`."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for column in columns:
        name, first = column.name, column.name.casefold()
        while name.casefold() in names:
            counts[first] = counts.get(first, 1) + 1
            name = f"{column.name}_{counts[first]}"
        names[name.casefold()] = name
    return list(names.values())


# ---- for people


def table(columns: Sequence[Column], rows: Iterable[Sequence[Value]], width: int, style: Style) -> Iterator[str]:
    """The lines of a table that fits, with left-out columns named below; few wide rows get a line per value."""
    write = [cell_formatter(column) for column in columns]
    shown = ([to(cell) for to, cell in zip(write, row, strict=True)] for row in rows)
    probe = list(islice(shown, _most_probed(columns)))
    head = [Span(sanitise(column.name, _CELL), "dim") for column in columns]
    layout = _laid_out(columns, head, probe, width)
    count = 0
    is_list = len(layout.widths) < len(columns) and 0 < len(probe) <= FEW
    if is_list:
        for row in _all(probe, shown):
            count += 1
            yield style.paint([Span(f"row {count}", "accent")])
            yield from _listed(head, row, layout, width, style)
    else:
        yield _line(head, layout, style, is_head=True)
        for row in _all(probe, shown):
            count += 1
            yield _line(row, layout, style)
    yield style.paint([Span(count_text(count, "row"), "dim")])
    if not is_list:
        for note in layout.notes:
            yield from (style.paint([Span(line, "dim")]) for line in wrapped(note, width))


def reference(columns: Sequence[Column], rows: Iterable[Sequence[Value]], width: int, style: Style) -> Iterator[str]:
    """Lines of an aligned table of mcpproxy's own words, whose last column has as many lines as it needs."""
    every = [[column.name for column in columns], *([str(cell) for cell in row] for row in rows)]
    *widths, _ = (max(map(len, column)) for column in zip(*every, strict=True))
    margin = sum(size + _GAP for size in widths)
    for number, (*names, words) in enumerate(every):
        begun = "".join(name.ljust(size + _GAP) for name, size in zip(names, widths, strict=True))
        for line in wrapped(words, max(2 * NARROWEST, width - margin)):
            yield style.paint([Span(begun + line, "plain" if number else "dim")])
            begun = " " * margin


def _most_probed(columns: Sequence[Column]) -> int:
    """The maximum number of rows to examine."""
    return min(PROBE, max(FEW + 1, PROBED // max(1, len(columns))))


class _Layout(NamedTuple):
    """Which columns a table shows, and how wide."""

    widths: dict[int, int]
    """The width of each shown column in cells, by its position in the result."""
    right: set[int]
    """Right-aligned columns: numbers, which are never cut; their names may be."""
    short: dict[int, Callable[[str], str]]
    """How to shorten a value, for the columns that do not fit."""
    notes: list[str]
    """Remarks on what was left out."""


def _all(probe: list[list[Span]], rest: Iterator[list[Span]]) -> Iterator[list[Span]]:
    yield from probe
    probe.clear()
    yield from rest


def _laid_out(columns: Sequence[Column], head: list[Span], probe: list[list[Span]], width: int) -> _Layout:
    """The layout with all columns, if necessary with shortened times and hashes, or with the most important ones.

    A value that is the same in all rows goes below the table, where dropped columns are named as well.
    """
    places = list(range(len(columns)))
    right = {at for at in places if columns[at].kind in _NUMBERS}
    natural = {at: max(cells(row[at].text) for row in [head, *probe]) for at in places}
    short: dict[int, Callable[[str], str]] = {}
    wanted = sum(natural.values()) + _GAP * (len(places) - 1)
    for at, shorten in _shortenings(columns, probe):
        if wanted > width:
            short[at] = shorten
            wanted -= natural[at]
            natural[at] = max(cells(head[at].text), *(cells(shorten(row[at].text)) for row in probe))
            wanted += natural[at]
    # Column names are untrusted, and may be longer than any value: without an alias, the name is the whole expression.
    # A list has more room for them than a table.
    is_list_better = 0 < len(probe) <= FEW and len(places) > 1
    firm = {at: natural[at] for at in short if natural[at] <= 2 * NARROWEST}
    for at in right:
        firm[at] = natural[at] if is_list_better else max((cells(row[at].text) for row in probe), default=0)
    least = {at: min(natural[at], max(firm.get(at, 0), NARROWEST)) for at in places}
    notes: list[str] = []
    if _excess(places, least, width) > 0 and FEW < len(probe) < _most_probed(columns):
        same = {at for at in places if len({row[at].text for row in probe}) == 1}
        if same and len(same) < len(places):
            places = [at for at in places if at not in same]
            constants = [f"{head[at].text} {fit(probe[0][at].text, 40)}" for at in sorted(same)]
            notes.append(f"in all rows: {_some(constants)}")
    left_out = _left_out(places, least, head, width)
    if left_out:
        places = [at for at in places if at not in left_out]
        columns_text = count_text(len(left_out), "more column")
        names = _some([head[at].text for at in sorted(left_out)])
        notes.append(f"{columns_text} did not fit; --format json has them: {names}")
    return _Layout(_squeezed(places, natural, firm, width), right, short, notes)


def _some(words: Sequence[str]) -> str:
    """The words, joined, or the first of them and the number of the rest."""
    more = len(words) - NAMED
    return ", ".join(words[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _shortenings(columns: Sequence[Column], probe: list[list[Span]]) -> Iterator[tuple[int, Callable[[str], str]]]:
    """The columns whose values can be shortened, and how: times without fractions, the beginning of hashes."""
    for at, column in enumerate(columns):
        if column.kind == "time" and column.type.startswith("TIMESTAMP") and probe:
            yield at, _to_the_second
    for at, column in enumerate(columns):
        # A column that is shortened is no longer squeezed, so no long text may be among the hashes.
        if column.kind == "text" and probe and all(_HASH.fullmatch(row[at].text) or _is_null(row[at]) for row in probe):
            yield at, _beginning


def _is_null(cell: Span) -> bool:
    return cell == Span("NULL", "dim")


def _to_the_second(text: str) -> str:
    return re.sub(r"\.\d+", "", text, count=1)


def _beginning(text: str) -> str:
    return text[:_HASH_CELLS] if _HASH.fullmatch(text) else text


def _importance(name: str, at: int) -> tuple[int, int]:
    """How important a column is, as a sort key: later columns are less important than earlier ones."""
    if name in _DROPPED_FIRST:
        return 0, _DROPPED_FIRST.index(name)
    return 2 if name == _MOST_MISSED else 1, -at


def _left_out(places: list[int], least: dict[int, int], head: list[Span], width: int) -> set[int]:
    """The least important columns, for which there is no room; one always stays."""
    excess = _excess(places, least, width)
    left_out: set[int] = set()
    for at in sorted(places, key=lambda at: _importance(head[at].text, at))[:-1]:
        if excess <= 0:
            break
        excess -= least[at] + _GAP
        left_out.add(at)
    return left_out


def _excess(places: list[int], least: dict[int, int], width: int) -> int:
    """How many cells too wide the columns are."""
    return sum(least[at] for at in places) + _GAP * (len(places) - 1) - width


def _squeezed(places: list[int], natural: dict[int, int], firm: dict[int, int], width: int) -> dict[int, int]:
    """The width of each column.

    Narrow columns get what they need, the others share what is left. The firm part of a column is not shared.
    """
    room = width - _GAP * (len(places) - 1)

    def shared(level: int) -> dict[int, int]:
        return {at: max(1, min(natural[at], max(firm.get(at, 0), level))) for at in places}

    level = bisect_right(range(width + 1), room, key=lambda level: sum(shared(level).values())) - 1
    widths, wider = shared(level), shared(level + 1)
    rest = [at for at in sorted(places, key=lambda at: natural[at]) if wider[at] > widths[at]]
    # Less than one cell for each of them is left.
    for at in rest[len(rest) - max(0, room - sum(widths.values())) :]:
        widths[at] += 1
    return widths


def _listed(head: list[Span], row: list[Span], layout: _Layout, width: int, style: Style) -> Iterator[str]:
    """One row, a line for each value."""
    margin = min(max(cells(name.text) for name in head), max(NARROWEST, width // 2))
    beside = width - 2 * _GAP - max((cells(row[at].text) for at in layout.right), default=0)
    if beside > 0:
        margin = min(margin, beside)
    for at, (name, value) in enumerate(zip(head, row, strict=True)):
        label = fit(name.text, margin)
        text = value.text if at in layout.right else _cut(value.text, max(1, width - margin - 2 * _GAP), None)
        blanks = " " * (margin - cells(label) + _GAP)
        yield style.paint([Span("  "), Span(label, "dim"), Span(blanks), Span(text, value.role)]).rstrip()


def _line(row: list[Span], layout: _Layout, style: Style, *, is_head: bool = False) -> str:
    spans: list[Span] = []
    for at, width in layout.widths.items():
        is_right, text = at in layout.right, row[at].text
        if is_head or not is_right:
            text = _cut(text, width, None if is_head else layout.short.get(at))
        cell, blanks = Span(text, row[at].role), Span(" " * (width - cells(text)))
        spans += [Span(" " * _GAP), *((blanks, cell) if is_right else (cell, blanks))]
    return style.paint(spans[1:]).rstrip()


def _cut(text: str, width: int, shorten: Callable[[str], str] | None) -> str:
    """As much of a text as fits; paths, URIs and methods keep their end."""
    if shorten is not None:
        text = shorten(text)
    return fit_ends(text, width) if _PATH.fullmatch(text) else fit(text, width)


def cell_formatter(column: Column, limit: int = _CELL) -> Callable[[Value], Span]:
    """How to write a value of a column for people; text and bytes in at most `limit` characters."""
    text: Callable[..., str] = _blob if column.kind == "blob" else _foreign
    write: Callable[[Any], str] = _TABLE.get(column.kind) or partial(text, limit=limit)
    if column.kind == "integer" and column.name.endswith("_ns"):
        write = ms_text
    elif column.kind == "float" and column.name.endswith("_ms"):
        write = _milliseconds

    def show(value: Value) -> Span:
        return Span("NULL", "dim") if value is None else Span(write(value))

    return show


def _foreign(value: Any, limit: int) -> str:
    return sanitise(str(value), limit)


def _blob(value: bytes, limit: int) -> str:
    return sanitise_bytes(value, limit)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def number(value: float) -> str:
    """A number with six significant digits, and an exponent only where it is very large or small."""
    if not isfinite(value) or value == 0 or not 1e-6 <= abs(value) < 1e15:
        return f"{value:g}"
    digits = max(0, 5 - floor(log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _milliseconds(value: float) -> str:
    return ms_figure(nanoseconds(value)) if abs(value) < _MAX_PLAIN_MS else f"{value:g}"


_MAX_PLAIN_MS: Final = 1e15
"""From here on, milliseconds are written with an exponent."""
_TABLE: Final[Mapping[str, Callable[[Any], str]]] = {"boolean": _boolean, "float": number}


# ---- JSON


def json_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """One object per line.

    BLOBs are base64, timestamps are UTC and end in Z, decimals and large integers are numbers with all their digits,
    NaN and infinities are null. JSON, lists, structs and maps are JSON unchanged, except for the timestamps in them.
    """
    names = names_of(columns)
    turned = [(at, to) for at, column in enumerate(columns) if (to := _json_turner(column)) is not None]
    wide = [(at, _json_number) for at, column in enumerate(columns) if column.kind == "integer"]
    for row in rows:
        cells = _turned(row, turned)
        try:
            line = orjson.dumps(dict(zip(names, cells, strict=True)))
        except orjson.JSONEncodeError:
            # An integer of more than 64 bits.
            line = orjson.dumps(dict(zip(names, _turned(cells, wide), strict=True)))
        yield line.decode()


def _turned(row: Sequence[Any], turn: Sequence[tuple[int, Callable[[Any], Any]]]) -> Sequence[Any]:
    if not turn:
        return row
    cells = list(row)
    for at, to in turn:
        if cells[at] is not None:
            cells[at] = to(cells[at])
    return cells


def _json_turner(column: Column) -> Callable[[Any], Any] | None:
    """The conversion that a value needs before orjson writes it, or None if it needs none."""
    if column.kind == "time" and column.type.startswith("TIMESTAMP"):
        return stamp
    if column.kind == "json" and (inside := inside_of(column.type)) is not None:
        return partial(_json_stamped, inside=inside)
    return _JSON.get(column.kind)


def _json_blob(value: Any) -> str:
    return b2a_base64(value, newline=False).decode()


def _json_number(value: Any) -> orjson.Fragment | None:
    return orjson.Fragment(str(value)) if not isinstance(value, Decimal) or value.is_finite() else None


def _json_nested(value: Any) -> Any:
    """JSON text unchanged if every reader accepts it; else with null for NaN, and as a string if it is not JSON."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        try:
            return orjson.Fragment(json.dumps(json.loads(value, parse_constant=lambda _: None)))
        except (ValueError, RecursionError):
            return value
    # Outside strings they are whitespace, and inside strings they cannot occur.
    return orjson.Fragment(value.replace("\r", " ").replace("\n", " "))


def _json_stamped(value: Any, inside: TimestampPaths) -> Any:
    return _json_nested(stamped(value, inside))


_JSON: Final[Mapping[str, Callable[[Any], Any]]] = {"blob": _json_blob, "decimal": _json_number, "json": _json_nested}


# ---- CSV

_ACTIVE: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell of text that begins with one of these is a formula to some spreadsheet, or becomes one when it is split."""


def csv_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """RFC 4180, each line with its CRLF: NULL is an empty cell, empty text is `""`, BLOBs are hexadecimal."""
    yield ",".join(csv_text(name) for name in names_of(columns)) + "\r\n"
    write = [_CSV.get(column.kind, csv_text) for column in columns]
    for row in rows:
        yield ",".join("" if cell is None else to(cell) for to, cell in zip(write, row, strict=True)) + "\r\n"


def csv_text(value: Any) -> str:
    """A text cell that no spreadsheet treats as a formula: a leading quote prevents that."""
    text = str(value)
    if text.startswith(_ACTIVE):
        text = f"'{text}"
    # A quoted cell is also a single cell for a program that splits at other characters, if it is the first on its line.
    # The documentation warns about the others.
    return '"' + text.replace('"', '""') + '"' if not text or re.search(r"[^\w.:/ -]|^\s|\s$", text) else text


# Not base64, which may begin with a `+`.
_CSV: Final[Mapping[str, Callable[[Any], str]]] = {
    "blob": bytes.hex,
    "boolean": _boolean,
    "decimal": str,
    "float": str,
    "integer": str,
}


# ---- Markdown


def markdown(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """A GitHub Markdown table whose cells contain no active markup; NULL is an empty cell."""
    yield f"| {' | '.join(markdown_text(column.name) for column in columns)} |"
    yield f"|{'|'.join('---:' if column.kind in _NUMBERS else '---' for column in columns)}|"
    write = [cell_formatter(column) for column in columns]
    for row in rows:
        shown = ("" if cell is None else markdown_text(to(cell).text) for to, cell in zip(write, row, strict=True))
        yield f"| {' | '.join(shown)} |"


def markdown_text(text: str) -> str:
    """Untrusted text, escaped so that nothing in it is markup, a link or a mention."""
    plain = re.sub(r"([\\`*_\[\]<>|~&$#!{}()])", r"\\\1", sanitise(text, None))
    # GitHub turns bare addresses into links, and what follows an @ into mentions.
    plain = re.sub(r"(?i)\b(www)\.", r"\1&#46;", plain.replace("://", "&#58;//"))
    return plain.replace("@", "&#64;<!-- -->")
