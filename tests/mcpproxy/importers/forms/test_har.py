"""HAR files that other programs write: without times, bodies or responses, with a byte order mark, with other sites."""

import json
from typing import Any

import pytest

from tests.mcpproxy.importers.logs import ImportedCapture, ImportedLog, imported, recognised

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = '{"jsonrpc":"2.0","id":1,"result":{}}'
URL = "https://notes.example/mcp"


def entry(**changes: Any) -> dict[str, Any]:
    headers = [{"name": "content-type", "value": "application/json"}]
    usual = {
        "startedDateTime": "2026-03-01T10:12:05.377Z",
        "time": 40,
        "request": {"method": "POST", "url": URL, "headers": headers, "postData": {"text": PING}, "bodySize": 40},
        "response": {"status": 200, "headers": headers, "content": {"text": PONG, "size": 36}},
        "timings": {"send": 1, "wait": 2.5, "receive": 0.5, "ssl": -1},
    }
    return usual | changes


def har(*entries: Any, creator: str = "browser") -> bytes:
    return json.dumps({"log": {"version": "1.2", "creator": {"name": creator}, "entries": entries}}).encode()


def read(*entries: Any) -> ImportedLog:
    return imported("har", har(*entries), "notes.har")


def capture_of(*entries: Any) -> ImportedCapture:
    result = read(*entries)
    assert not result.left_out
    (capture,) = result.captures
    return capture


def times(capture: ImportedCapture) -> list[tuple[int, bool]]:
    frames = [record for record in capture.records if record.rec == "frame"]
    return [(record.t_ns // 10**5, bool(record.members.get("time_is_exact", True))) for record in frames]


@pytest.mark.parametrize("time", [None, -1, -0.5])
def test_a_duration_that_is_not_known_is_the_sum_of_its_parts(time: float | None) -> None:
    assert times(capture_of(entry(time=time))) == [(0, True), (40, True)]
    assert times(capture_of(entry(time=time, timings=None))) == [(0, True), (0, True)]


@pytest.mark.parametrize("has_member", [True, False])
def test_an_entry_without_a_time_has_that_of_the_entry_before(has_member: bool) -> None:
    untimed = entry(startedDateTime=None)
    if not has_member:
        del untimed["startedDateTime"]
    later = entry(startedDateTime="2026-03-01T10:12:06.377Z")
    expected = [(0, False), (400, False), (0, True), (400, True), (10000, True), (10400, True)]
    assert sorted(times(capture_of(untimed, entry(), later))) == sorted(expected)


def test_without_any_time_nothing_is_imported() -> None:
    with pytest.raises(Exception, match="entry 0: expected a date and time"):
        read(entry(startedDateTime=None))


@pytest.mark.parametrize("response", [None, {"status": 0}, {"status": None, "content": None}])
def test_an_entry_without_a_response_was_not_answered(response: Any) -> None:
    assert [frame.dir for frame in capture_of(entry(response=response)).frames] == ["c2s"]


def test_bodies_that_the_file_does_not_hold_are_missing_and_not_empty() -> None:
    without = entry()
    del without["request"]["postData"]
    del without["response"]["content"]["text"]
    capture = capture_of(without, entry())
    assert [frame.raw.decode() for frame in capture.frames] == [PING, PONG]


def test_a_byte_order_mark_and_other_sites_do_not_matter() -> None:
    picture = {"request": {"method": "GET", "url": "https://pictures.example/a.png"}, "response": None}
    blob = {"request": {"method": "GET", "url": "blob:https://notes.example/1"}}
    data = b"\xef\xbb\xbf" + har(picture, entry(), blob, {"request": None}, "x")
    assert recognised(data) == ["har"]
    result = imported("har", data)
    assert [capture.name for capture in result.captures] == ["notes.example"]
    assert [left_out.place for left_out in result.left_out] == ["entry 3", "entry 4"]
    assert result.remarks == ["skipped 2 exchanges that are not with an MCP server"]


def test_calls_without_http_are_not_of_this_form() -> None:
    assert "har" not in recognised(har(entry(request={"method": "POST", "url": "mcp://notes/ping"})))
    assert recognised(har()) == ["har"]
