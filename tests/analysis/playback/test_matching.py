"""Which recorded request is the one that a client sends now."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.values.ignored_places import IgnoreError
from analysis.conversation.message import parse_exactly
from analysis.facts import target_name
from analysis.playback.matching import Matching, MatchRule

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def _key(params: Any, rule: MatchRule = "arguments", *ignored: str, method: str = "tools/call") -> str:
    return Matching(rule, ignored).key_of(method, target_name(params) or "", params)


def test_arguments_are_compared_as_json() -> None:
    search = {"name": "search", "arguments": {"query": "cats", "limit": 1, "deep": [{"a": 1, "b": 2}]}}
    equal = [
        {"arguments": {"limit": 1, "query": "cats", "deep": [{"b": 2, "a": 1}]}, "name": "search"},
        {**search, "_meta": {"progressToken": 3, "traceparent": "00-1"}},
        {**search, "arguments": {**search["arguments"], "limit": 1.0}},  # type: ignore[dict-item]
    ]
    different: list[Any] = [
        {**search, "name": "find"},
        {**search, "cursor": "2"},
        {**search, "requestState": "s"},
        {**search, "arguments": {**search["arguments"], "limit": True}},  # type: ignore[dict-item]
        {**search, "arguments": {**search["arguments"], "limit": "1"}},  # type: ignore[dict-item]
        {**search, "arguments": {**search["arguments"], "more": None}},  # type: ignore[dict-item]
        [search],
        None,
    ]
    for params in equal:
        assert _key(params) == _key(search), params
    for params in different:
        assert _key(params) != _key(search), params
    assert _key(search, method="tools/other") != _key(search)
    assert _key(None) == _key({}) == _key({"_meta": {"progressToken": 1}}) != _key([])


def test_handles_of_the_server_count_as_it_will_repeat_them() -> None:
    assert _key({"taskId": "a"}, method="tasks/result") != _key({"taskId": "b"}, method="tasks/result")
    assert _key({"cursor": "a"}, method="tools/list") != _key({"cursor": "b"}, method="tools/list")


def test_another_client_is_introduced_in_the_same_way() -> None:
    old = {"protocolVersion": "2025-06-18", "clientInfo": {"name": "a", "version": "1"}, "capabilities": {}}
    new = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "b", "version": "1"}, "capabilities": {"roots": {}}}
    assert _key(old, method="initialize") == _key(new, method="initialize") != _key(old)
    assert _key(old, "exact", method="initialize") != _key(new, "exact", method="initialize")


def test_exact_compares_meta_but_not_the_progress_token() -> None:
    search = {"name": "search", "_meta": {"a": 1, "progressToken": 1}}
    assert _key(search, "exact") == _key({"name": "search", "_meta": {"a": 1.0, "progressToken": "x"}}, "exact")
    assert _key(search, "exact") != _key({"name": "search", "_meta": {"a": True}}, "exact")
    assert _key({"name": "search", "_meta": {"progressToken": 1}}, "exact") == _key({"name": "search"}, "exact")
    assert _key({"_meta": 1}, "exact") != _key({"_meta": 2}, "exact")
    assert search == {"name": "search", "_meta": {"a": 1, "progressToken": 1}}, "the params were changed"


def test_method_compares_the_name_and_sequence_not_even_that() -> None:
    cats, dogs, other = ({"name": name, "arguments": {"q": q}} for name, q in (("s", "cats"), ("s", "dogs"), ("t", "")))
    assert _key(cats, "method") == _key(dogs, "method") != _key(other, "method")
    assert _key(cats, "sequence") == _key(other, "sequence") != _key(cats, "sequence", method="tools/list")


def test_ignored_places_point_into_the_params() -> None:
    def search(at: str, tags: list[Any]) -> dict[str, Any]:
        return {"name": "search", "arguments": {"at": at, "tags": tags}}

    old, new = search("10:00", [{"id": 1}, {"id": 2}]), search("11:00", [{"id": 3}, {"id": 4}])
    for places in (
        ("/arguments/at", "/arguments/tags/*/id"),
        ("tools/call /arguments/at", "tools/call search /arguments/tags"),
        ("/arguments",),
        ('""',),
    ):
        assert _key(old, "arguments", *places) == _key(new, "arguments", *places), places
        assert _key(old, "exact", *places) == _key(new, "exact", *places), places
    for places in (
        ("/arguments/at",),
        ("tools/list /arguments",),
        ("tools/call find /arguments",),
    ):
        assert _key(old, "arguments", *places) != _key(new, "arguments", *places), places
    longer = search("10:00", [{"id": 1}])
    assert _key(old, "arguments", "/arguments/tags/*/id") != _key(longer, "arguments", "/arguments/tags/*/id")
    with pytest.raises(IgnoreError):
        _key(old, "arguments", "not a pointer")


def test_hostile_params_have_keys() -> None:
    deep = "[" * 900 + "]" * 900
    for text in (
        '{"name": "\\ud800"}',
        '{"name": 123456789012345678901234567890}',
        '{"name": 1e400}',
        '{"name": "a", "name": "b", "\\u0000": "\\u0000"}',
        f'{{"arguments": {deep}}}',
        f'{{"_meta": {deep}}}',
        "[]",
        '"text"',
    ):
        params = parse_exactly(text.encode())
        for rule in ("arguments", "exact", "method", "sequence"):
            assert _key(params, rule) == _key(parse_exactly(text.encode()), rule), text
            assert len(_key(params, rule, "/name/x/*")) < 100


@given(_JSON, _JSON)
def test_equal_keys_are_equal_json(first: Any, second: Any) -> None:
    shuffled = json.loads(json.dumps(first), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert _key({"arguments": first}) == _key({"arguments": shuffled})
    if json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True) and first != second:
        assert _key({"arguments": first}) != _key({"arguments": second})
