"""What the jail and its child say to each other: requests, columns, rows, errors.

A message is four bytes of length, and JSON. What JSON has no word for is text: large integers, NaN and infinities,
decimals, times; bytes are base64. A length is bounded before a byte of it is awaited, and a value of another type than
its column's is an error, because a child that was taken over may say anything.
"""

import os
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import orjson

ROW_LIMIT: Final = 64 << 20
"""Bytes of one row as JSON."""
MESSAGE_LIMIT: Final = ROW_LIMIT + (1 << 20)
OVER_MEMORY: Final = 70
"""The exit code of a child that found itself over its memory."""

Value = None | bool | int | float | Decimal | str | bytes
"""What a cell holds. Times and intervals are text as DuckDB writes them, lists, structs and maps are JSON text."""

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
_FAMILIES: Final[tuple[tuple[str, Kind], ...]] = (
    (r".*\]", "json"),
    (r"DECIMAL\b.*", "decimal"),
    (r"ENUM\b.*", "text"),
    (r"(DATE|TIME|TIMESTAMP|INTERVAL)\b.*|TIME(STAMP)?_.*", "time"),
)


class Column(NamedTuple):
    """One column of a result."""

    name: str
    type: str
    """As DuckDB writes it: `BIGINT`, `DECIMAL(18,3)`, `STRUCT(a INTEGER)[]`."""

    @property
    def kind(self) -> Kind:
        """How its values come; what is not known here, structs and maps above all, comes as JSON."""
        if known := _KINDS.get(self.type):
            return known
        return next((kind for form, kind in _FAMILIES if re.fullmatch(form, self.type, re.DOTALL)), "json")


class QueryError(Exception):
    """A statement that was not answered, and why."""

    def __init__(self, kind: str, text: str, nearest: Iterable[str] = ()) -> None:
        """Says what DuckDB, or the jail, has against it."""
        super().__init__(text)
        self.kind = kind
        """`parser`, `catalog`, `binder`, `permission`, `conversion` …: the class of DuckDB's error in words; or
        `empty`, `row size`, `memory`, `timeout`, `interrupted`, `died`, `jail`."""
        self.nearest = tuple(nearest)
        """Tables, views or columns that may have been meant, the likeliest first."""


def write(fd: int, message: bytes) -> None:
    """Write a message, all of it."""
    left = memoryview(len(message).to_bytes(4) + message)
    while left:
        left = left[os.write(fd, left) :]


def read(fd: int) -> dict[str, Any] | None:
    """The next message of a writer that is trusted; None at the end."""
    wanted, data = 4, bytearray()
    while len(data) < wanted:
        piece = os.read(fd, wanted - len(data))
        if not piece:
            return None
        data += piece
        if len(data) == 4:
            wanted += int.from_bytes(data)
    message: dict[str, Any] = orjson.loads(data[4:])
    return message


# ---- cells


def encoders(columns: Iterable[Column]) -> list[Callable[[Any], Any]]:
    """How to turn what DuckDB gives into what JSON has."""
    return [_ENCODERS.get(column.kind, str) for column in columns]


def decoders(columns: Iterable[Column]) -> list[Callable[[Any], Value]]:
    """How to turn it back.

    They raise ValueError, TypeError or ArithmeticError at what is no value of the column.
    """
    return [_DECODERS.get(column.kind, _text) for column in columns]


def _whole_out(value: Any) -> Any:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 64 else str(value)


def _fraction_out(value: Any) -> Any:
    return value if -sys.float_info.max <= value <= sys.float_info.max else str(value)


def _blob_out(value: Any) -> str:
    return b64encode(value).decode()


_ENCODERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "blob": _blob_out,
    "boolean": bool,
    "float": _fraction_out,
    "integer": _whole_out,
}


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _blob(value: Any) -> bytes:
    return b64decode(value, validate=True)


_DECODERS: Final[dict[Kind, Callable[[Any], Value]]] = {
    "blob": _blob,
    "boolean": _boolean,
    "decimal": Decimal,
    "float": float,
    "integer": int,
}
