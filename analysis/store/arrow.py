"""Converts Python values to Arrow columns, which DuckDB scans in place, with a few calls into C for a whole batch.

No value is cast: a value whose type differs from its column's, text that UTF-8 cannot represent, and an integer out of
the column's range raise ValueError. Offsets have 64 bits, so no batch has too many bytes for them.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias

import nanoarrow
from nanoarrow.c_array import c_array, c_array_from_buffers
from nanoarrow.c_array_stream import c_array_stream

Values: TypeAlias = Sequence[Any]
"""The values of a column."""

_TYPES: Final = {
    "BIGINT": nanoarrow.int64,
    "BLOB": nanoarrow.large_binary,
    "BOOLEAN": nanoarrow.bool_,
    "INTEGER": nanoarrow.int32,
    "VARCHAR": nanoarrow.large_string,
}
_LIST_TYPE: Final = "BIGINT[]"
_BOOLEANS: Final = frozenset((True, False, None))


class ArrowBatch:
    """A batch of rows. DuckDB scans it like a table that contains its current rows."""

    def __init__(self) -> None:
        """Create an empty batch."""
        self.clear()

    def clear(self) -> None:
        """Drop the rows."""
        self.fill({"nothing": "BOOLEAN"}, [()])

    def fill(self, types: Mapping[str, str], columns: Iterable[Values]) -> None:
        """Replace the rows with others, whose values are copied.

        Args:
            types: the types of the columns by their names, as DuckDB writes them.
            columns: the values of each column, with None for NULL. Lists are never NULL and contain no NULL.

        Raises:
            ValueError: a value does not fit its column, or the columns differ in length.
        """
        fields = dict[str, Any]()
        arrays = list[Any]()
        for (name, type_), values in zip(types.items(), columns, strict=True):
            fields[name], arrow_array = _column(type_, values)
            arrays.append(arrow_array)
            if arrays[0].length != arrow_array.length:
                raise ValueError("columns of different length")
        length = arrays[0].length
        self._rows = c_array_from_buffers(nanoarrow.struct(fields), length, [None], children=arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, by Arrow's protocol; each call starts from the first row."""
        return c_array_stream(self._rows).__arrow_c_stream__(requested_schema)


def _column(type_: str, values: Values) -> tuple[Any, Any]:
    """The Arrow type of a column, and its values."""
    if type_ == _LIST_TYPE:
        return _list_column(values)
    if type_ == "BOOLEAN" and not _BOOLEANS.issuperset(values):
        raise ValueError("a BOOLEAN that is none")  # nanoarrow would convert any value by its truth value
    # If integers may be NULL, nanoarrow passes each through an iterator, which takes three times as long.
    arrow_type = _TYPES[type_](nullable=None in values)
    return arrow_type, c_array(values, arrow_type)


def _list_column(values: Sequence[Collection[int]]) -> tuple[Any, Any]:
    number = nanoarrow.int64(nullable=False)
    arrow_type = nanoarrow.large_list(number, nullable=False)
    items = c_array(list(chain.from_iterable(values)), number)
    offsets = array("q", accumulate(map(len, values), initial=0))
    return arrow_type, c_array_from_buffers(arrow_type, len(values), [None, offsets], children=[items])
