"""DuckDB reads from a batch what its own appender makes of the same values, or the batch is refused."""

import gc
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path
from resource import getpagesize
from typing import Any, Final

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nanoarrow.c_array_stream import c_array_stream

from analysis.conversation.call import Outcome
from analysis.store.arrow import ArrowBatch
from analysis.store.tables import LEADING_VALUE_TYPES, PYTHON_VALUE_TYPES
from analysis.store.values import MAX_BIGINT, text
from captures.ambiguity import DUPLICATE_MEMBER


class Colour(StrEnum):
    RED = "röt"


class Number(IntEnum):
    SEVEN = 7


SMALLEST: Final = -MAX_BIGINT - 1
INTEGERS: Final = st.integers(-(2**31), 2**31 - 1)
BIGINTS: Final = st.integers(SMALLEST, MAX_BIGINT) | st.sampled_from([0, SMALLEST, MAX_BIGINT, Number.SEVEN])
TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["", "\0", "a\0b", "é", "\U0010ffff", "x" * 13, "ü" * 300, Colour.RED, Outcome.RESULT, DUPLICATE_MEMBER]
)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "BIGINT": st.none() | BIGINTS,
    "BIGINT[]": st.lists(BIGINTS, max_size=5) | st.lists(BIGINTS, max_size=3).map(tuple),
    "BLOB": st.none() | st.binary() | st.sampled_from([b"", b"\0", b"\xff" * 13, b"\xed\xa0\x80"]),
    "BOOLEAN": st.none() | st.booleans(),
    "INTEGER": st.none() | INTEGERS,
    "VARCHAR": st.none() | TEXTS,
}
"""Values for every column type."""


def test_every_type_of_a_column_is_tried() -> None:
    types = [
        *LEADING_VALUE_TYPES.values(),
        *(type_ for values in PYTHON_VALUE_TYPES.values() for type_ in values.values()),
    ]
    assert set(types) == set(VALUES)


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all tests: creating it takes twenty times as long as a query. Each cursor drops its temporary tables."""
    return duckdb.connect(config={"threads": 1})


def scanned(types: dict[str, str], columns: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    batch = ArrowBatch()
    with database().cursor() as connection:
        connection.register("batch", batch)
        batch.fill(types, columns)
        connection.execute("create temp table found as from batch")
        told = connection.execute("select column_name, data_type from duckdb_columns() where table_name = 'found'")
        assert dict(told.fetchall()) == types
        batch.clear()
        assert connection.execute("from batch").fetchall() == []
        return connection.execute("from found").fetchall()


def appended(types: dict[str, str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with database().cursor() as connection:
        connection.execute(f"create temp table found ({', '.join(f'{name} {type_}' for name, type_ in types.items())})")
        appender = connection.appender("found")
        appender.append_rows(rows)
        appender.flush()
        return connection.execute("from found").fetchall()


TYPES: Final = {f"column_{number}": type_ for number, type_ in enumerate(VALUES)}


@given(st.lists(st.tuples(*VALUES.values()), min_size=1, max_size=30))
def test_any_rows_are_those_of_the_appender(rows: list[tuple[Any, ...]]) -> None:
    assert scanned(TYPES, list(zip(*rows, strict=True))) == appended(TYPES, rows)


@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("size", [1, 7, 8, 9, 2048, 2049])
def test_rows_of_nothing_but_null_or_without_null(type_: str, size: int) -> None:
    some: dict[str, Any] = {
        "BIGINT": MAX_BIGINT,
        "BIGINT[]": [1, 2],
        "BLOB": b"\xff\0",
        "BOOLEAN": True,
        "INTEGER": -5,
        "VARCHAR": "é",
    }
    assert scanned({"one": type_}, [[some[type_]] * size]) == [(some[type_],)] * size
    if type_ != "BIGINT[]":
        assert scanned({"one": type_}, [[None] * size]) == [(None,)] * size
        mixed = [None, some[type_]] * size
        assert scanned({"one": type_}, [mixed]) == [(value,) for value in mixed]


def test_no_row_is_no_row() -> None:
    assert scanned(TYPES, [()] * len(TYPES)) == []


def test_lone_surrogates_come_as_the_loader_writes_them() -> None:
    assert scanned({"one": "VARCHAR"}, [[text("a\ud800é")]]) == [("a?é",)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("BIGINT", MAX_BIGINT + 1),
        ("BIGINT", SMALLEST - 1),
        ("BIGINT", 1.0),
        ("BIGINT", "1"),
        ("BIGINT", b"1"),
        ("BIGINT[]", [MAX_BIGINT + 1]),
        ("BIGINT[]", [None]),
        ("BIGINT[]", ["1"]),
        ("BLOB", "1"),
        ("BLOB", 1),
        ("INTEGER", 2**31),
        ("INTEGER", -(2**31) - 1),
        ("INTEGER", 1.0),
        ("VARCHAR", "a\ud800"),
        ("VARCHAR", b"1"),
        ("VARCHAR", 1),
        ("VARCHAR", ["1"]),
    ],
)
@pytest.mark.parametrize("others", [[], [None]], ids=["alone", "beside NULL"])
def test_what_does_not_fit_its_column_is_refused(type_: str, value: Any, others: list[None]) -> None:
    with pytest.raises(ValueError, match="converting list"):
        scanned({"one": type_}, [[value] if type_ == "BIGINT[]" else [value, *others]])  # lists are never NULL


@pytest.mark.parametrize("value", ["false", 2, b""])
def test_only_true_and_false_are_booleans(value: object) -> None:
    with pytest.raises(ValueError, match="BOOLEAN"):
        scanned({"one": "BOOLEAN"}, [[True, value]])


def test_a_list_is_never_null() -> None:
    with pytest.raises(TypeError):
        scanned({"one": "BIGINT[]"}, [[[1], None]])


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="different length"):
        scanned({"one": "BIGINT", "two": "VARCHAR"}, [[1, 2], ["a"]])


def test_a_batch_may_have_more_rows_than_a_row_group() -> None:
    numbers = range(150_000)
    columns = [numbers, [f"{number} é" if number % 3 else None for number in numbers]]
    batch = ArrowBatch()
    with duckdb.connect() as connection:
        connection.register("batch", batch)
        batch.fill({"one": "BIGINT", "two": "VARCHAR"}, columns)
        connection.execute("create table found as from batch")
        assert connection.execute("from found").fetchall() == list(zip(*columns, strict=True))


def test_offsets_of_64_bits_reach_beyond_every_batch() -> None:
    """Offsets of 32 bits would end at 2 GiB of text, so that batches would have to be split."""
    batch = ArrowBatch()
    batch.fill(TYPES, [()] * len(TYPES))
    forms = {child.name: child.format for child in c_array_stream(batch).get_schema().children}
    long = {"BIGINT[]": "+L", "BLOB": "Z", "VARCHAR": "U"}
    assert {type_: forms[name] for name, type_ in TYPES.items() if type_ in long} == long


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads what the kernel says of a process in /proc")
def test_what_a_batch_held_is_let_go_without_a_look_for_cycles() -> None:
    batch = ArrowBatch()
    big = bytes(16 << 20)
    gc.collect()
    gc.disable()
    try:
        before = _resident()
        for _ in range(20):
            batch.fill({"one": "BLOB", "two": "BIGINT", "three": "BIGINT[]"}, [[big], [1], [[1]]])
            batch.clear()
        assert _resident() - before < 5 * len(big)
    finally:
        gc.enable()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
