"""Which recorded request is nearest to one that matches none, and where it differs."""

from typing import Any

from analysis.playback.matching import Matching
from analysis.playback.nearest import MAX_POINTERS, MAX_VALUE_CHARS, NearestRequest, nearest_request

_USUAL = Matching()


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _nearest(today: dict[str, Any], *recorded: dict[str, Any], matching: Matching = _USUAL) -> NearestRequest:
    candidates = [(number, 10 + number, "tools/call", params["name"], params) for number, params in enumerate(recorded)]
    nearest = nearest_request("tools/call", today["name"], today, candidates, matching)
    assert nearest is not None
    return nearest


def test_fewest_places_differ() -> None:
    today = _call("search", query="cats", limit=10)
    found = _nearest(today, _call("search", query="dogs", limit=20), _call("search", query="dogs", limit=10))
    assert found == NearestRequest(11, "tools/call", "search", ("/arguments/query",), 1, (('"dogs"', '"cats"'),))
    assert _nearest(today, _call("search", query="dogs", limit=10), _call("search", query="x", limit=10)).call == 0


def test_types_and_absent_members_differ() -> None:
    found = _nearest(_call("s", a=True, b=None, d=[1, 2]), _call("s", a=1, c=0, d=[1, 3]))
    assert dict(zip(found.pointers, found.values, strict=True)) == {
        "/arguments/a": ("1", "true"),
        "/arguments/b": (None, "null"),
        "/arguments/c": ("0", None),
        "/arguments/d/*": ("3", "2"),
    }


def test_the_same_tool_comes_first_then_the_most_similar_name() -> None:
    today = _call("search", q=1)
    assert _nearest(today, _call("searches", q=1), _call("search", other=list(range(9)))).name == "search"
    assert _nearest(today, _call("x", q=1), _call("serach", q=2), _call("find", q=1)).name == "serach"
    assert _nearest(_call("zzz"), _call("abc")).name == "abc"


def test_no_request_of_another_method_is_near() -> None:
    candidates: list[tuple[int, int, str, str, Any]] = [(1, 2, "tools/list", "", {})]
    assert nearest_request("tools/call", "search", {}, candidates, Matching()) is None
    assert nearest_request("tools/call", "search", {}, [], Matching()) is None


def test_what_does_not_count_is_no_difference() -> None:
    today = {**_call("search", at=1, q=1), "_meta": {"progressToken": 7, "a": 1}}
    recorded = _call("search", at=2, q=2)
    assert _nearest(today, recorded, matching=Matching("arguments", ("/arguments/at",))).pointers == ("/arguments/q",)
    exact = _nearest(today, recorded, matching=Matching("exact", ("/arguments",)))
    assert exact.pointers == ("/_meta",)


def test_hostile_requests_are_bounded() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    wide = {f"{number}/~\x1b": "x" * 1_000 for number in range(2_000)}
    many = {str(number): [number] * 100 for number in range(900)}
    requests = [
        _call("s", a=deep),
        _call("s", **wide),
        _call("s", **many),
        _call("s", a="x" * 100_000),
        _call("s\ud800"),
    ]
    for today in requests:
        for recorded in requests:
            found = _nearest(today, *[recorded] * 10)
            assert len(found.pointers) <= MAX_POINTERS
            assert all(len(pointer) < 300 for pointer in found.pointers)
            assert all(len(value or "") <= MAX_VALUE_CHARS for pair in found.values for value in pair)
            assert bool(found.pointers) == (today is not recorded)
