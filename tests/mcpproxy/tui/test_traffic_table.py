"""The cells of the traffic's rows."""

from mcpproxy.tui.rows.traffic_columns import ColumnNeeds, traffic_columns
from mcpproxy.tui.rows.traffic_table import request_excerpt
from mcpproxy.wording.cells import cells
from mcpproxy.wording.units import brief_duration


def test_a_latency_has_one_format_however_long_it_is() -> None:
    room = next(column.width for column in traffic_columns(80, ColumnNeeds()) if column.name == "latency")
    told = {
        ns: brief_duration(ns) for ns in (410_000, 1_920_000_000, 9_999_000_000, 14_023_000_000, 134 * 10**9, 10**15)
    }
    assert list(told.values()) == ["410µs", "1.9s", "10.0s", "14.0s", "2m14s", "11d14h"]
    assert all(cells(text) <= room for text in told.values())


def test_the_list_of_exchanges_has_a_direction_only_if_the_server_asks_too() -> None:
    for has_server_requests, is_exchanges, is_shown in ((False, True, False), (True, True, True), (False, False, True)):
        needs = ColumnNeeds(has_server_requests=has_server_requests)
        columns = {column.name: column for column in traffic_columns(80, needs, is_exchanges=is_exchanges)}
        assert columns["way"].is_extra != is_shown


def test_a_question_leaves_room_for_its_answer() -> None:
    for asked, answered, room, shown in (
        ('{"a":1}', "The sum is 3", 40, '{"a":1}'),
        ("", "3 tools", 40, ""),
        ("a" * 90, "", 40, "a" * 90),
        ("a" * 30, "b" * 30, 23, "a" * 11 + "…"),
        ("a" * 30, "bb", 23, "a" * 17 + "…"),
        ("notes/2.md", "The library closes", 19, "notes/2.md"),
    ):
        assert request_excerpt(asked, answered, room) == shown
