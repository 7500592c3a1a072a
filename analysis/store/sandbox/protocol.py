"""The protocol between the sandbox's parent and child: requests, columns, rows, errors.

A message is JSON. Values that JSON cannot express are text: large integers, NaN and infinities, decimals, times; bytes
are base64. A value of a type other than its column's is an error, because a compromised child may send anything.
"""

import re
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

MAX_ROW_BYTES: Final = 64 << 20
"""The most bytes of one row as JSON."""
MAX_SANDBOX_MESSAGE_BYTES: Final = MAX_ROW_BYTES + (1 << 20)
OVER_MEMORY_STATUS: Final = 70
"""The exit code of a child that exceeded its memory limit."""

Value = None | bool | int | float | Decimal | str | bytes
"""The value of a cell. Times and intervals are text, as DuckDB writes them; lists, structs and maps are JSON text."""

Kind = Literal["boolean", "integer", "float", "decimal", "blob", "text", "time", "json"]

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("VARCHAR", "UUID", "BIT", '"NULL"'), "text"),
    "BIGNUM": "decimal",
    "BLOB": "blob",
    "BOOLEAN": "boolean",
    "JSON": "json",
}
_KINDS_BY_PATTERN: Final[tuple[tuple[str, Kind], ...]] = (
    (r".*\]", "json"),
    (r"DECIMAL\b.*", "decimal"),
    (r"ENUM\b.*", "text"),
    (r"(DATE|TIME|TIMESTAMP|INTERVAL)\b.*|TIME(STAMP(TZ)?)?_.*", "time"),
)


class Column(NamedTuple):
    """One column of a result."""

    name: str
    type: str
    """Its type, as DuckDB writes it: `BIGINT`, `DECIMAL(18,3)`, `STRUCT(a INTEGER)[]`."""

    @property
    def kind(self) -> Kind:
        """How its values are encoded; unknown types, mostly structs and maps, are JSON."""
        if exact_kind := _KINDS.get(self.type):
            return exact_kind
        return next(
            (kind for pattern, kind in _KINDS_BY_PATTERN if re.fullmatch(pattern, self.type, re.DOTALL)), "json"
        )


class QueryError(Exception):
    """Raised if a statement could not be answered; the text says why."""

    def __init__(self, kind: str, text: str, nearest: Iterable[str] = ()) -> None:
        """Create an error with the reason from DuckDB or the sandbox."""
        super().__init__(text)
        self.kind = kind
        """`parser`, `catalog`, `binder`, `permission`, `conversion` …: the class of DuckDB's error in words; or
        `empty`, `row size`, `memory`, `timeout`, `interrupted`, `died`, `jail`."""
        self.nearest = tuple(nearest)
        """Tables, views or columns that may have been meant, the likeliest first."""


# ---- cells


# Cells are converted by column: checking that all cells of a column are plain takes a fifth of the time of converting
# each.
Cells = Sequence[Any]
"""The cells of one column in some rows."""


def encoders(columns: Iterable[Column]) -> list[Callable[[Cells], Cells]]:
    """Functions that convert DuckDB values to JSON, one for each column."""
    return [_encoder(column) for column in columns]


def decoders(columns: Iterable[Column]) -> list[Callable[[Cells], Sequence[Value]]]:
    """Functions that convert JSON back to values, one for each column.

    They raise ValueError, TypeError or ArithmeticError for an invalid value.
    """
    return [_converter(_DECODERS.get(column.kind, _decode_text), _TYPES.get(column.kind, str)) for column in columns]


def _encoder(column: Column) -> Callable[[Cells], Cells]:
    convert = _ENCODERS.get(column.kind, str)
    # JSON can express all values of these types, but only some floats and some of the widest integers.
    is_plain = column.kind in ("boolean", "text", "time", "json") or column.type in _NARROW_INTEGERS
    return _converter(convert, _TYPES.get(column.kind, str) if is_plain else None)


def _converter(convert: Callable[[Any], Any], plain: type | None) -> Callable[[Cells], Cells]:
    """Returns a function that converts cells, except NULL and values whose type is exactly `plain`."""
    unchanged_types = {plain, type(None)}

    def convert_cells(cells: Cells) -> Cells:
        if plain is not None and unchanged_types.issuperset(map(type, cells)):
            return cells
        return [None if cell is None else convert(cell) for cell in cells]

    return convert_cells


def _encode_integer(value: Any) -> Any:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 64 else str(value)


def _encode_float(value: Any) -> Any:
    return value if -sys.float_info.max <= value <= sys.float_info.max else str(value)


def _encode_blob(value: Any) -> str:
    return b2a_base64(value, newline=False).decode()


_NARROW_INTEGERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
"""The types of integers that are numbers in JSON; orjson supports 64 bits."""
_TYPES: Final[dict[Kind, type | None]] = {
    "blob": None,
    "boolean": bool,
    "decimal": None,
    "float": float,
    "integer": int,
}
"""For each kind, the type of the values that need no conversion, unless that is text."""
_ENCODERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "blob": _encode_blob,
    "boolean": bool,
    "float": _encode_float,
    "integer": _encode_integer,
}


def _decode_boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _decode_text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _decode_blob(value: Any) -> bytes:
    return a2b_base64(value, strict_mode=True)


_DECODERS: Final[dict[Kind, Callable[[Any], Value]]] = {
    "blob": _decode_blob,
    "boolean": _decode_boolean,
    "decimal": Decimal,
    "float": float,
    "integer": int,
}
