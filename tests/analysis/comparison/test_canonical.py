"""Canonical JSON: what is equal, and what is not."""

import orjson
import pytest

from analysis.comparison.canonical import canonical_json, json_digest
from analysis.conversation.message import parse_exactly

EQUAL = (
    ('{"a": 1, "b": [1.0, 2e0, 0.5]}', '{"b":[1,2,5e-1],"a":1.0}'),
    ("[1e30]", "[1000000000000000000000000000000]"),
    ("[1e17]", "[100000000000000000]"),
    ('"\\ud800"', '"\\uD800"'),
    ('{"\\ud800": 1.0, "a": {}}', '{"a": {}, "\\ud800": 1}'),
    ("[1e400]", "[10e399]"),
)
DIFFERENT = (
    ("true", "1"),
    ("false", "0"),
    ('"1"', "1"),
    ("null", "{}"),
    ("[[], []]", "[[[]]]"),
    ("NaN", "null"),
    ("1", "2"),
)


def test_equal_values_have_equal_text_however_they_were_parsed() -> None:
    for one, other in EQUAL:
        for parse in (parse_exactly, orjson.loads):
            try:
                value = parse(one.encode())
            except ValueError:
                continue  # orjson refuses what the exact parser accepts
            assert canonical_json(value) == canonical_json(parse_exactly(other.encode())), (one, other, parse)


def test_different_values_have_different_digests() -> None:
    for one, other in DIFFERENT:
        assert json_digest(parse_exactly(one.encode())) != json_digest(parse_exactly(other.encode())), (one, other)


@pytest.mark.parametrize("depth", [10, 1_000, 20_000])
def test_depth_does_not_matter(depth: int) -> None:
    value: object = 1.0
    for _ in range(depth):
        value = [{"a": value, "b": []}]
    text = canonical_json(value)
    assert text == b'[{"a":' * depth + b"1" + b',"b":[]}]' * depth
