"""The aspect `values`: which changes of results are reported, and that nothing else is."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.comparison.change import ABSENT, Change
from analysis.comparison.observe import observe
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.values import value_changes as changes_module
from analysis.comparison.values import values as values_module
from analysis.comparison.values.ignored_places import parse_place
from analysis.comparison.values.learning import learn
from analysis.comparison.values.value_changes import compare_values
from analysis.comparison.values.value_record import ValuesRecord
from analysis.comparison.values.values import ValuesAspect
from tests.analysis.comparison.sides import Fill, written
from tests.analysis.store.capture_writer import CaptureWriter

ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
OTHER_ID = "9f2504e0-4f89-11d3-9a0c-0305e82c33ff"
RESULT: dict[str, Any] = {
    "content": [
        {
            "type": "text",
            "text": f"Found 3 files, took 12 ms at 2026-11-30T09:21:10Z: /home/alice/a.txt (request {ID})",
        },
        {"type": "text", "text": json.dumps({"job": {"id": ID, "startedAt": 1764494470, "state": "done"}})},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ],
    "structuredContent": {
        "items": [{"id": ID, "size": 1}, {"id": OTHER_ID, "size": 2}, {"id": 3, "size": 3}],
        "sessionId": "s-1",
        "nextCursor": "p2",
        "createdAt": "2026-11-30T09:21:10Z",
        "elapsedMs": 12,
        "url": "http://localhost:53121/mcp",
        "path": "/tmp/tmpa1b2/report.csv",
        "owner": "hmac:0123456789abcdef",
        "total": 3,
        "done": True,
    },
    "_meta": {"version": "1", "trace": {"id": ID}, "tags": ["a", "b"]},
}
FRESH = (
    (ID, "11111111-4f89-11d3-9a0c-0305e82c3301"),
    (OTHER_ID, "22222222-4f89-11d3-9a0c-0305e82c3301"),
    ("2026-11-30T09:21:10Z", "2027-01-31T10:00:00Z"),
    ("1764494470", "1799999999"),
    ("12 ms", "1.5 s"),
    ("/home/alice/", "/Users/bob/"),
    ("s-1", "s-2"),
    ("p2", "page-two"),
    ('"elapsedMs": 12', '"elapsedMs": 99'),
    ("53121", "40404"),
    ("tmpa1b2", "tmpzzzz"),
    ("0123456789abcdef", "fedcba9876543210"),
    ('"version": "1"', '"version": "2"'),
)


def _capture(*results: dict[str, Any], arguments: dict[str, Any] | None = None) -> Fill:
    def fill(capture: CaptureWriter) -> None:
        for number, result in enumerate(results, 1):
            capture.call(100 + number, number, "search", **(arguments or {"q": "x"}))
            capture.answer(100.5 + number, number, **result)

    return fill


def _record(folder: Path, name: str, fill: Fill, ignored: tuple[str, ...] = ()) -> ValuesRecord:
    path = written(folder, name, fill)
    record = observe(name, [(name, path)], ObserveOptions(ignored_pointers=ignored, with_findings=False)).records[
        "values"
    ]
    return msgspec.json.decode(msgspec.json.encode(record), type=ValuesRecord)


def _changes(folder: Path, old: Fill, new: Fill, ignored: tuple[str, ...] = ()) -> tuple[Change, ...]:
    records = _record(folder, "old", old), _record(folder, "new", new)
    return ValuesAspect().compare(*records, CompareOptions(ignored_pointers=ignored)).changes


def _kinds(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return sorted((change.kind.id, change.pointer) for change in changes)


def _fresh(result: dict[str, Any]) -> dict[str, Any]:
    """The result as another recording of the same thing has it."""
    text = json.dumps(result)
    for before, after in FRESH:
        text = text.replace(before, after)
    fresh: dict[str, Any] = json.loads(text)
    assert fresh != result
    return fresh


def _reversed_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reversed_members(value[name]) for name in reversed(value)}
    return [_reversed_members(element) for element in value] if isinstance(value, list) else value


def test_a_capture_with_itself_or_with_another_recording_of_the_same_has_no_change(tmp_path: Path) -> None:
    for name, result in (
        ("itself", RESULT),
        ("fresh ids, times, …", _fresh(RESULT)),
        ("permuted members", _reversed_members(_fresh(RESULT))),
    ):
        assert _kinds(_changes(tmp_path, _capture(RESULT), _capture(result))) == [], name


Edit = Callable[[dict[str, Any]], object]


def _set(*steps: str | int, to: Any) -> Edit:
    def edit(result: dict[str, Any]) -> None:
        part: Any = result
        for step in steps[:-1]:
            part = part[step]
        part[steps[-1]] = to

    return edit


def _drop(*steps: str | int) -> Edit:
    def edit(result: dict[str, Any]) -> None:
        part: Any = result
        for step in steps[:-1]:
            part = part[step]
        del part[steps[-1]]

    return edit


def _text(before: str, after: str, block: int = 0) -> Edit:
    def edit(result: dict[str, Any]) -> None:
        text = result["content"][block]["text"]
        assert before in text, before
        result["content"][block]["text"] = text.replace(before, after)

    return edit


S = "structuredContent"
AT = f"/{S}"
TEXT = "/content/*/text"
STARTED = f"{TEXT}/@json/job/startedAt"
PLANTED: tuple[tuple[str, Edit, str, str], ...] = (
    ("an id becomes a number", _set(S, "items", 0, "id", to=7), "value/type-changed", f"{AT}/items/*/id"),
    ("a session id becomes null", _set(S, "sessionId", to=None), "value/type-changed", f"{AT}/sessionId"),
    ("a session id becomes empty", _set(S, "sessionId", to=""), "value/changed", f"{AT}/sessionId"),
    ("a session id is lost", _drop(S, "sessionId"), "value/member-lost", f"{AT}/sessionId"),
    ("a time becomes null", _set(S, "createdAt", to=None), "value/type-changed", f"{AT}/createdAt"),
    ("a time becomes a number", _set(S, "createdAt", to=1764494470), "value/type-changed", f"{AT}/createdAt"),
    ("a time becomes a word", _set(S, "createdAt", to="never"), "value/changed", f"{AT}/createdAt"),
    ("a cursor is lost", _drop(S, "nextCursor"), "value/member-lost", f"{AT}/nextCursor"),
    ("a cursor becomes empty", _set(S, "nextCursor", to=""), "value/changed", f"{AT}/nextCursor"),
    ("a duration becomes a text", _set(S, "elapsedMs", to="12 ms"), "value/type-changed", f"{AT}/elapsedMs"),
    ("a duration becomes negative", _set(S, "elapsedMs", to=-1), "value/changed", f"{AT}/elapsedMs"),
    ("_meta loses a key", _drop("_meta", "version"), "value/member-lost", "/_meta/version"),
    ("_meta gets a key", _set("_meta", "new", to=1), "value/member-added", "/_meta/new"),
    ("a value in _meta changes its type", _set("_meta", "version", to=1), "value/type-changed", "/_meta/version"),
    ("a key deep in _meta is lost", _drop("_meta", "trace", "id"), "value/member-lost", "/_meta/trace/id"),
    ("a list in _meta gets shorter", _set("_meta", "tags", to=["a"]), "value/list-shorter", "/_meta/tags"),
    ("a list of ids gets shorter", _drop(S, "items", 1), "value/list-shorter", f"{AT}/items"),
    ("the host of a loopback URL changes", _set(S, "url", to="http://10.0.0.1:1/mcp"), "value/changed", f"{AT}/url"),
    ("the path of a loopback URL changes", _set(S, "url", to="http://localhost:1/sse"), "value/changed", f"{AT}/url"),
    ("a temporary file has another name", _set(S, "path", to="/tmp/tmpa1b2/other.csv"), "value/changed", f"{AT}/path"),
    ("a redacted value is in plain text", _set(S, "owner", to="alice"), "value/changed", f"{AT}/owner"),
    ("the sentence around a duration changes", _text("Found 3 files", "Found 4 files"), "value/text-changed", TEXT),
    ("a duration is gone from a sentence", _text(", took 12 ms", ""), "value/text-changed", TEXT),
    ("an id in JSON in a text is a number", _text(f'"{ID}"', "5", 1), "value/type-changed", f"{TEXT}/@json/job/id"),
    ("a time in JSON in a text is lost", _text('"startedAt": 1764494470, ', "", 1), "value/member-lost", STARTED),
    ("JSON in a text is no JSON", _text("}}", "}", 1), "value/text-changed", TEXT),
)  # fmt: skip
OTHER_CHANGES: tuple[tuple[str, Edit, str, str], ...] = (
    ("a number", _set(S, "total", to=4), "value/changed", f"{AT}/total"),
    ("true is not 1", _set(S, "done", to=1), "value/type-changed", f"{AT}/done"),
    ("a new member", _set(S, "more", to=1), "value/member-added", f"{AT}/more"),
    ("a longer list", _set(S, "items", 3, to=0), "value/list-longer", f"{AT}/items"),
    ("another kind of block", _set("content", 2, "type", to="audio"), "value/block-kind-changed", "/content/*"),
    ("another image", _set("content", 2, "data", to="iVBORw0KGgp="), "value/changed", "/content/*/data"),
    ("no structured content", _drop(S), "value/structured-lost", AT),
    ("a scalar for an object", _set(S, to=[]), "value/type-changed", AT),
)  # fmt: skip


def test_each_planted_change_is_found_and_nothing_else(tmp_path: Path) -> None:
    record = _record(tmp_path, "old", _capture(RESULT))
    for name, edit, kind, pointer in (*PLANTED, *OTHER_CHANGES):
        result = copy.deepcopy(RESULT)
        if name == "a longer list":
            result[S]["items"].append(0)
        else:
            edit(result)
        changes = compare_values(record, _record(tmp_path, "new", _capture(_fresh(result))), []).changes
        assert _kinds(changes) == [(kind, pointer)], name
        (change,) = changes
        assert change.subject == "tools/call search"
        assert change.old is not None
        assert change.new is not None
        assert change.old.frame == change.new.frame


def test_a_reordered_list_is_one_change(tmp_path: Path) -> None:
    old, new = {S: {"names": ["a", "b", "c"]}}, {S: {"names": ["b", "a", "c"]}}
    assert _kinds(_changes(tmp_path, _capture(old), _capture(new))) == [("value/list-reordered", f"{AT}/names")]


def test_a_list_whose_order_means_nothing_may_be_reordered(tmp_path: Path) -> None:
    old, new = ({"requested": {"required": names, "enum": names}} for names in (["a", "b"], ["b", "a"]))
    assert _changes(tmp_path, _capture(old), _capture(new)) == ()
    assert _kinds(_changes(tmp_path, _capture({S: old}), _capture({S: new}))) == [
        ("value/list-reordered", f"{AT}/requested/{name}") for name in ("enum", "required")
    ]


def test_the_same_place_in_many_elements_and_calls_is_one_change_with_an_example(tmp_path: Path) -> None:
    old = [{S: {"items": [{"n": number, "s": "x"} for number in range(3)]}}] * 2
    new = [{S: {"items": [{"n": number, "s": "y"} for number in range(3)]}}] * 2
    (change,) = _changes(tmp_path, _capture(*old), _capture(*new))
    assert (change.pointer, change.times, change.before, change.after) == (f"{AT}/items/*/s", 6, "x", "y")


def test_answers_in_another_order_or_number_are_no_change(tmp_path: Path) -> None:
    a, b, c = ({S: {"n": number}} for number in range(3))
    for old, new in (([a, b], [b, a]), ([a, b, a], [b, b, b, a]), ([a, b], [a]), ([a], [a, b]), ([a], [a, a, a])):
        assert _kinds(_changes(tmp_path, _capture(*old), _capture(*new))) == [], (old, new)
    for old, new, times in (([a, a], [a, b], 1), ([a, b], [b, c], 1), ([a, b], [a, a, a], 1), ([a, a], [b, b, b], 2)):
        (change,) = _changes(tmp_path, _capture(*old), _capture(*new))
        assert change.times == times, (old, new)


def test_answers_are_compared_in_the_order_of_their_requests(tmp_path: Path) -> None:
    def fill(capture: CaptureWriter) -> None:
        capture.call(100, 1, "search", q="x")
        capture.call(101, 2, "search", q="x")
        capture.answer(102, 2, **{S: {"n": 2}})
        capture.answer(103, 1, **{S: {"n": 1}})

    (change,) = _changes(tmp_path, fill, _capture({S: {"n": 1}}, {S: {"n": 5}}))
    assert (change.before, change.after) == (2, 5)


def test_results_and_errors_are_not_compared_with_each_other(tmp_path: Path) -> None:
    failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
    assert _changes(tmp_path, _capture(RESULT), _capture(failed)) == ()


def test_text_that_repeats_the_structured_content_is_not_reported_twice(tmp_path: Path) -> None:
    def result(value: Any, **structured: Any) -> dict[str, Any]:
        text = value if isinstance(value, str) else json.dumps(value)
        return {"content": [{"type": "text", "text": text}], S: structured}

    def repeated(size: int) -> dict[str, Any]:
        blocks = [{"type": "resource_link", "uri": "x:y", "name": "z", "size": size}]
        return {"content": blocks, S: {"content": blocks}}

    pairs = (
        (result({"n": 1}, n=1), result({"n": 2}, n=2), f"{AT}/n"),
        (result(1, result=1), result(2, result=2), f"{AT}/result"),
        (result("a", result="a"), result("b", result="b"), f"{AT}/result"),
        (result(True, result=True), result(False, result=False), f"{AT}/result"),
        (result({"n": 1}, result=[{"n": 1}]), result({"n": 2}, result=[{"n": 2}]), f"{AT}/result/*/n"),
        (result([1], content="[1]"), result([2], content="[2]"), f"{AT}/content/@json/*"),
        (repeated(1), repeated(2), f"{AT}/content/*/size"),
    )
    for old, new, pointer in pairs:
        assert _kinds(_changes(tmp_path, _capture(old), _capture(new))) == [("value/changed", pointer)]
        assert _changes(tmp_path, _capture(old), _capture(new), (pointer,)) == ()
        lost = {"content": old["content"]}
        assert _kinds(_changes(tmp_path, _capture(old), _capture(lost))) == [("value/structured-lost", AT)]


def test_a_page_with_the_cursor_of_its_request_is_reported(tmp_path: Path) -> None:
    def pages(cursor: str) -> Fill:
        def fill(capture: CaptureWriter) -> None:
            capture.ask(100, 1, "tools/list", cursor="p2")
            capture.answer(101, 1, tools=[], nextCursor=cursor)
            capture.call(102, 2, "search", page_token="t2")
            capture.answer(103, 2, structuredContent={"nextPageToken": cursor.replace("p", "t")})

        return fill

    changes = _changes(tmp_path, pages("p3"), pages("p2"))
    expected = ["tools/call search", "tools/list"]
    assert sorted((each.kind.id, each.subject) for each in changes) == [
        ("value/cursor-repeats", name) for name in expected
    ]
    assert _changes(tmp_path, pages("p2"), pages("p2")) == ()
    assert _changes(tmp_path, pages("p3"), pages("p4")) == ()


def test_what_was_ignored_is_counted_by_rule(tmp_path: Path) -> None:
    old = {S: {"createdAt": "2026-11-30T09:21:10Z", "requestId": 1, "took": 5, "n": 1}}
    new = {S: {"createdAt": "2026-11-30T10:21:10Z", "requestId": 1, "took": 6, "n": 2}}
    records = _record(tmp_path, "old", _capture(old, old)), _record(tmp_path, "new", _capture(new, new))
    line = "tools/call search /structuredContent/n"
    result = compare_values(*records, [parse_place(line)])
    assert result.changes == ()
    assert sorted(tuple(each) for each in result.ignored) == sorted(
        [("time", 4, 4), ("id", 4, 0), ("duration", 4, 4), (line, 4, 4)]
    )


def test_ignored_places_work_when_observed_and_when_compared(tmp_path: Path) -> None:
    old = {S: {"items": [{"age": 1, "n": 1}, {"age": 2, "n": 2}], "debug": {"x": 1}}}
    new = {S: {"items": [{"age": 5, "n": 1}, {"age": "6", "n": 2}]}}
    places = (f"{AT}/items/*/age", f"tools/call search /{S}/debug")
    for observed, compared in ((places, places), ((), places), (places, ())):
        records = _record(tmp_path, "old", _capture(old), observed), _record(tmp_path, "new", _capture(new), observed)
        result = compare_values(*records, [parse_place(line) for line in compared])
        assert _kinds(result.changes) == [], (observed, compared)
        assert {each.rule: each.values for each in result.ignored} == {places[0]: 4, places[1]: 1}
    other_call = (f"{AT}/items/*/age", f"tools/call fetch /{S}/debug")
    assert _kinds(_changes(tmp_path, _capture(old), _capture(new), other_call)) == [
        ("value/member-lost", f"{AT}/debug")
    ]
    shorter = {S: {"items": [{"age": 1, "n": 1}]}}
    assert [kind for kind, _ in _kinds(_changes(tmp_path, _capture(new), _capture(shorter), places))] == [
        "value/list-shorter"
    ]


def test_learnt_places_make_two_recordings_equal_and_are_few(tmp_path: Path) -> None:
    old = {
        S: {"items": [{"age": 1, "n": 1}, {"age": 2, "n": 2}], "load": 0.5, "hosts": ["a"], "only old": 1, "n": 1},
        "content": [{"type": "text", "text": '{"load": 0.5}'}],
    }
    new = {
        S: {"items": [{"age": 5, "n": 1}, {"age": "6", "n": 2}], "load": None, "hosts": ["a", "b"], "n": 1},
        "content": [{"type": "text", "text": '{"load": 0.7}'}],
    }
    records = _record(tmp_path, "old", _capture(old)), _record(tmp_path, "new", _capture(new))
    lines = learn(*records)
    assert lines == [
        "tools/call search /content/*/text/@json/load",
        f"tools/call search /{S}/hosts",
        f"tools/call search /{S}/items/*/age",
        f"tools/call search /{S}/load",
        f'tools/call search "/{S}/only old"',
    ]
    places = [parse_place(line) for line in lines]
    assert compare_values(*records, places).changes == ()
    for place in places:
        assert compare_values(*records, [each for each in places if each != place]).changes, (
            f"{place.line} is not needed"
        )
    assert learn(records[0], records[0]) == []


def test_no_request_on_both_sides_is_a_gap_that_only_an_explicit_wish_fails(tmp_path: Path) -> None:
    records = [_record(tmp_path, name, _capture(RESULT, arguments={"q": name})) for name in ("old", "new")]
    result = compare_values(records[0], records[1], [])
    (gap,) = result.gaps
    assert (gap.what, gap.is_failure, sorted(gap.needed_by)) == ("values of results", False, ["value"])
    assert result.changes == ()


def test_large_results_are_compared_by_their_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "MAX_RESULT_BYTES", 100)
    old, same, new = (
        {S: {"text": word * 200, "createdAt": time}} for word, time in (("a", 1764494470), ("a", 1764494471), ("b", 1))
    )
    assert _changes(tmp_path, _capture(old), _capture(same)) == ()
    records = _record(tmp_path, "old", _capture(old)), _record(tmp_path, "new", _capture(new))
    result = compare_values(*records, [])
    (change,) = result.changes
    assert (change.kind.id, change.pointer, change.before) == ("value/changed", "", ABSENT)
    assert "too large" in change.message
    (gap,) = result.gaps
    assert gap[:2] == ("contents of large results", "of 2, only digests were compared")
    assert learn(*records) == ['tools/call search ""']
    assert compare_values(*records, [parse_place('tools/call search ""')]).changes == ()


def test_hostile_results_never_raise(tmp_path: Path) -> None:
    raws = (
        b'{"structuredContent":{"\\ud800":"\\udfff","n":1' + b"0" * 400 + b',"e":1e400,"d":1,"d":2}}',
        b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
        b'"a text"',
        b"null",
        b"[1,2]",
        b'{"content":{"text":{"@json":1}},"structuredContent":7}',
        b'{"content":[1,null,{"text":5},{"type":[]},{"type":{}}]}',
    )

    def fill(results: tuple[bytes, ...]) -> Fill:
        def write(capture: CaptureWriter) -> None:
            for number, raw in enumerate(results, 1):
                capture.call(100 + number, number, "\ud800 x\n", q="x")
                capture.raw(100.5 + number, "s2c", b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, raw))

        return write

    assert _changes(tmp_path, fill(raws), fill(raws)) == ()
    for old in raws:
        for new in raws:
            records = _record(tmp_path, "old", fill((old,))), _record(tmp_path, "new", fill((new,)))
            changes = compare_values(*records, []).changes
            assert bool(changes) == (old != new), (old, new)
            assert compare_values(*records, [parse_place(line) for line in learn(*records)]).changes == ()


def test_of_very_many_differences_the_first_are_shown_and_the_rest_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "MAX_DETAILED_PAIRS", 2)
    monkeypatch.setattr(changes_module, "MAX_DIFFERENCES", 3)

    def fill(shift: int) -> Fill:
        def write(capture: CaptureWriter) -> None:
            for number in range(1, 6):
                capture.call(100 + number, number, "search", n=number)
                capture.answer(100.5 + number, number, **{S: {"n": [number + shift, 9, shift, -shift]}})

        return write

    records = _record(tmp_path, "old", fill(100)), _record(tmp_path, "new", fill(200))
    found = [(each.pointer, each.times, each.message) for each in compare_values(*records, []).changes]
    assert found == [
        (f"{AT}/n/*", 3, "a value in a result changed"),
        ("", 4, "further results changed, which were not compared in detail"),
    ]
    assert learn(*records) == [f"tools/call search {AT}/n/*"]


def test_a_call_with_very_many_places_is_ignored_as_a_whole(tmp_path: Path) -> None:
    old, new = ({S: {f"m{number}": value for number in range(2_000)}} for value in (1, 2))
    records = _record(tmp_path, "old", _capture(old)), _record(tmp_path, "new", _capture(new))
    assert learn(*records) == ['tools/call search ""']
