"""What two messages say is compared after parsing."""

from typing import Any

import pytest

from analysis.store.content import answer_hash, first_difference, params_hash


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"params": {}}),
        ({"params": {"a": 1, "b": [1.0, 1e20]}}, {"params": {"b": [1, 100000000000000000000], "a": 1}}),
        ({"params": {"_meta": {"progressToken": 1}}}, {"params": {}}),
        ({"params": {"a": 1, "_meta": {"traceparent": "x", "k": 1}}}, {"params": {"a": 1, "_meta": {"k": 1}}}),
        ({"method": "notifications/cancelled", "params": {"requestId": 1}}, {"method": "notifications/cancelled"}),
        ({"params": {"a": "\ud800"}}, {"params": {"a": "\ud800"}}),
    ],
)
def test_equal_params_have_equal_hashes(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert params_hash(one) == params_hash(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"params": {"a": 1}}, {"params": {"a": "1"}}),
        ({"params": {"a": True}}, {"params": {"a": 1}}),
        ({"params": {"requestId": 1}}, {"params": {}}),
        ({"params": {"_meta": {"k": 1}}}, {"params": {}}),
        ({"params": [1, 2]}, {"params": [2, 1]}),
    ],
)
def test_other_params_have_other_hashes(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert params_hash(one) != params_hash(other)


def test_a_result_is_never_equal_to_an_error() -> None:
    assert answer_hash({"result": {"code": 1}}) != answer_hash({"error": {"code": 1}})
    assert answer_hash({"result": {}, "error": None}) == answer_hash({"result": {}})


def test_what_is_nested_too_deeply_has_no_hash_or_the_same() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert params_hash({"params": deep}) is None
    assert first_difference({"a": deep}, {"a": [deep]}).count("/") <= 16
    while deep:
        deep = deep.pop()


@pytest.mark.parametrize(
    ("one", "other", "pointer"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "/a/b/1"),
        ({"a": 1}, {"a": 1, "x/y": 2}, "/x~1y"),
        ([1], [1, 2], "/1"),
        (1, 2, ""),
        ({"n" * 100: 1}, {"n" * 100: 2}, f"/{'n' * 60}"),
    ],
)
def test_a_pointer_leads_to_the_first_difference(one: Any, other: Any, pointer: str) -> None:
    assert first_difference(one, other) == pointer
