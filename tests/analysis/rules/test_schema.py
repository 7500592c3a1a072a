"""The rules of shapes, beyond what cases can express: any value anywhere, and what rules share."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import REVISIONS
from analysis.rules.discovery import rules
from analysis.rules.finding import Level
from tests.analysis.traces import check, stdio

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["_meta", "progressToken", "a"]), inner)
    ),
    max_leaves=8,
)


def request(number: int, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def result(number: int, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": value}


@given(method=st.sampled_from(sorted(METHODS)), version=st.sampled_from(REVISIONS), one=JSON, two=JSON, other=JSON)
def test_no_rule_fails_whatever_is_said(method: str, version: str, one: Any, two: Any, other: Any) -> None:
    start = {"protocolVersion": version, "capabilities": {}, "clientInfo": other}
    frames = [
        *(("c2s", request(1, "initialize", start)), ("s2c", result(1, {**start, "serverInfo": two}))),
        *(("c2s", request(2, method, one)), ("s2c", result(2, two))),
        *(("s2c", request(2, method, two)), ("c2s", result(2, one))),
        ("s2c", {"jsonrpc": "2.0", "method": method, "params": other}),
        ("c2s", {"jsonrpc": "2.0", "method": method.removeprefix("notifications/"), "params": one}),
    ]
    check(stdio("anything", *frames))  # also checks that no rule failed


def test_the_same_bytes_twice_are_judged_twice() -> None:
    bad = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warn", "data": ""}}
    found = check(stdio("twice", ("s2c", bad), ("s2c", bad), start_observed=False))
    assert [one.frame for one in found if one.rule == "schema/invalid-notification"] == [0, 1]


@pytest.mark.parametrize(("version", "level"), [("2025-03-26", Level.WARNING), ("2025-06-18", Level.ERROR)])
def test_uris_of_resources_are_an_error_since_they_have_to_follow_the_rfc(version: str, level: Level) -> None:
    start = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    frames = [
        ("c2s", request(1, "initialize", start)),
        ("s2c", result(1, {**start, "serverInfo": {"name": "demo", "version": "1"}})),
        ("c2s", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ("c2s", request(2, "resources/read", {"uri": "a"})),
        ("s2c", result(2, {"contents": []})),
        ("s2c", request(1, "roots/list", {})),
        ("c2s", result(1, {"roots": [{"uri": "a"}]})),
    ]
    found = check(stdio("uris", *frames))
    # A separate rule reports the URIs of roots.
    assert [(one.rule, one.level) for one in found if one.rule in ("schema/uri", "roots/not-file")] == [
        ("schema/uri", level),
        ("roots/not-file", rules()["roots/not-file"].level),
    ]
