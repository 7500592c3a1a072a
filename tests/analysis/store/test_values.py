"""Values in the form that columns hold."""

import json
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.store.values import MAX_JSON_DEPTH, integer, is_shallow, json_text, text, wall


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@given(st.text(alphabet=st.characters()), st.integers(0, 40))
def test_texts_can_be_written(value: str, most: int) -> None:
    found = text(value, most)
    assert found is not None
    assert len(found.encode().decode()) <= most


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(alphabet=st.characters()) | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(alphabet=st.characters()), x),
    )
)
def test_json_is_what_the_database_takes(database: duckdb.DuckDBPyConnection, value: Any) -> None:
    found = json_text(value)
    assert found is not None
    assert database.execute("select json_valid(?)", [found]).fetchone() == (True,)
    if not _is_odd(value):
        assert json.loads(found) == value


def _is_odd(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_odd(one) for pair in value.items() for one in pair)
    if isinstance(value, list):
        return any(map(_is_odd, value))
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)


@given(st.integers(1, 400), st.sampled_from([b"[", b'{"a":', b'{"[\\"{":']))
def test_depth_is_told_exactly(depth: int, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    raw = opening * depth + b"1" + closing * depth + b'"' + b"[{" * 300 + b'"'
    assert is_shallow(raw) == (depth <= MAX_JSON_DEPTH)


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.none()))
def test_integers_fit(value: object) -> None:
    found = integer(value)
    assert found is None or -(2**63) < found < 2**63
    clock = wall(value)
    assert clock is None or -(2**62) <= clock < 2**62
