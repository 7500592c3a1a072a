"""What the views say was lost or changed between two captures of one conversation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import analysis
from captures.record import members, seal
from tests.analysis.store.capture_writer import DAY, MS, OPENED, CaptureWriter

HOP_MS = 2.0
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class TwoSides:
    """A conversation, as it is written down at the client and, two milliseconds away, at the server."""

    def __init__(self, folder: Path, *, clock_ms: float = 0, opened_ms: float = 0, **server: Any) -> None:
        """Begin with a handshake.

        Args:
            folder: where the captures go.
            clock_ms: how much later the server's clock is.
            opened_ms: when the server's capture opens, in milliseconds after the client's.
            server: members of the header of the server's capture.
        """
        self.folder = folder
        self.opened_ms = opened_ms
        self._events: dict[str, list[tuple[float, str, dict[str, Any]]]] = {"client": [], "server": []}
        wall_ns = OPENED + round((clock_ms + opened_ms) * MS)
        self.client = CaptureWriter(folder / "client.mcpcap", "weather", 7)
        self.server = CaptureWriter(folder / "server.mcpcap", "weather", 3, wall_ns, **server)
        if not opened_ms:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            self.request(5, 0, "initialize", **hello)
            info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            self.answer(15, 0, **info)
            self.notify(20, "notifications/initialized")

    def at_client(self, at_ms: float, direction: str, **message: Any) -> None:
        """The client's side has a message."""
        self._events["client"].append((at_ms, direction, message))

    def at_server(self, at_ms: float, direction: str, **message: Any) -> None:
        """The server's side has a message, at a time by the client's clock."""
        self._events["server"].append((at_ms - self.opened_ms, direction, message))

    def send(self, at_ms: float, direction: str, **message: Any) -> None:
        """Send a message, which arrives."""
        first, second = (self.at_client, self.at_server) if direction == "c2s" else (self.at_server, self.at_client)
        first(at_ms, direction, **message)
        second(at_ms + HOP_MS, direction, **message)

    def request(self, at_ms: float, id_: object, method: str, **params: Any) -> None:
        """The client asks."""
        self.send(at_ms, "c2s", id=id_, method=method, params=params)

    def answer(self, at_ms: float, id_: object, **result: Any) -> None:
        """The server answers."""
        self.send(at_ms, "s2c", id=id_, result=result)

    def call(self, at_ms: float, id_: int, **arguments: Any) -> None:
        """The client calls a tool, and gets a result."""
        self.request(at_ms, id_, "tools/call", name="echo", arguments=arguments)
        self.answer(at_ms + 10, id_, content=[])

    def notify(self, at_ms: float, method: str, **params: Any) -> None:
        """The client notifies."""
        self.send(at_ms, "c2s", method=method, params=params)

    def paths(self, until_ms: float = 10_000) -> list[Path]:
        """Write both captures, which end then; returns their paths."""
        for name, writer, opened_ms in (("client", self.client, 0.0), ("server", self.server, self.opened_ms)):
            for at_ms, direction, message in sorted(self._events[name], key=lambda event: event[0]):
                writer.say(at_ms, direction, **message)  # type: ignore[arg-type]
            writer.close(until_ms - opened_ms)
        return [writer.path for writer in (self.client, self.server)]

    def lost(self, columns: str = "what, is_certain, method", **how: Any) -> list[tuple[Any, ...]]:
        """What `lost_between` says."""
        with opened(self.paths(**how)) as connection:
            return connection.execute(f"select {columns} from lost_between").fetchall()


def opened(paths: list[Path]) -> duckdb.DuckDBPyConnection:
    return analysis.open(paths)


@pytest.fixture
def sides(tmp_path: Path) -> TwoSides:
    return TwoSides(tmp_path)


def test_nothing_is_lost_if_all_arrives(sides: TwoSides) -> None:
    for number in range(1, 5):
        sides.call(number * 100, number, x=number)
    with opened(sides.paths()) as connection:
        assert connection.execute("from lost_between").fetchall() == []
        rows = connection.execute(
            "select client_capture, server_capture, is_pair, is_certain, request_hop_ms, response_hop_ms, offset_ms, "
            "offset_error_ms from both_sides where kind = 'request'"
        ).fetchall()
    client, server = f"{7:032x}", f"{3:032x}"
    assert rows == [(client, server, True, True, HOP_MS, HOP_MS, 0.0, HOP_MS)] * 5


def test_what_was_lost_on_the_way_is_told(sides: TwoSides) -> None:
    sides.call(100, 1, x=1)
    sides.at_client(200, "c2s", id=2, method="tools/call", params={"name": "echo", "arguments": {"x": 2}})
    sides.request(300, 3, "tools/call", name="echo", arguments={"x": 3})
    sides.at_server(310, "s2c", id=3, result={"content": []})
    sides.at_client(400, "c2s", method="notifications/roots/list_changed")
    sides.at_server(500, "s2c", id=1, method="roots/list")
    sides.send(600, "s2c", id=2, method="roots/list")
    sides.at_client(610, "c2s", id=2, result={"roots": []})
    sides.call(700, 4, x=4)
    assert sides.lost("what, is_certain, sender, method, client_frame is null, server_frame is null") == [
        ("request_lost", True, "client", "tools/call", False, True),
        ("response_lost", True, "client", "tools/call", False, False),
        ("notification_lost", True, "client", "notifications/roots/list_changed", False, True),
        # One of two equal requests arrived, and their ids say which.
        ("request_lost", True, "server", "roots/list", True, False),
        ("response_lost", True, "server", "roots/list", False, False),
    ]


def test_what_something_between_sends_or_answers_is_told(sides: TwoSides) -> None:
    sides.at_client(100, "c2s", id=1, method="tools/list")
    sides.at_client(105, "s2c", id=1, error={"code": -32001, "message": "busy"})
    sides.request(200, 2, "tools/call", name="slow", arguments={})
    sides.at_client(205, "s2c", id=2, error={"code": -32001, "message": "took too long"})
    sides.at_server(300, "s2c", id=2, result={"content": []})
    sides.at_server(400, "c2s", id=77, method="ping")
    sides.at_server(410, "s2c", id=77, result={})
    sides.call(500, 3)
    assert sides.lost() == [
        ("answered_between", True, "tools/list"),
        ("answered_between", True, "tools/call"),
        ("request_added", True, "ping"),
    ]


def test_what_was_changed_is_told_and_another_notation_is_no_change(sides: TwoSides) -> None:
    params = {"name": "echo", "arguments": {"a": 1, "b": 2.0}, "_meta": {"progressToken": 1}}
    sides.at_client(100, "c2s", id=1, method="tools/call", params=params)
    again = {"arguments": {"b": 2, "a": 1.0}, "name": "echo", "_meta": {"progressToken": "other"}}
    sides.at_server(102, "c2s", id=1, params=again, method="tools/call")
    sides.at_client(150, "s2c", method="notifications/progress", params={"progressToken": 1, "progress": 1})
    sides.at_server(148, "s2c", method="notifications/progress", params={"progressToken": "other", "progress": 1.0})
    sides.answer(200, 1, content=[])
    sides.at_client(300, "c2s", id=2, method="tools/call", params={"name": "echo", "arguments": {"a": "ü"}})
    sides.at_server(302, "c2s", id=2, method="tools/call", params={"name": "echo", "arguments": {"a": "?"}})
    sides.answer(310, 2, content=[])
    sides.request(400, 3, "tools/list")
    sides.at_server(410, "s2c", id=3, result={"tools": [{"name": "a"}, {"name": "b"}]})
    sides.at_client(412, "s2c", id=3, result={"tools": [{"name": "a"}]})
    sides.call(500, 4)
    assert sides.lost() == [("request_changed", True, "tools/call"), ("response_changed", True, "tools/list")]


def test_a_bridge_that_renumbers_loses_nothing(sides: TwoSides) -> None:
    for number in range(1, 6):
        params = {"name": "echo", "arguments": {"x": number % 3}}
        sides.at_client(number * 100, "c2s", id=number, method="tools/call", params=params)
        sides.at_server(number * 100 + 2, "c2s", id=number + 1, method="tools/call", params=params)
        sides.at_server(number * 100 + 10, "s2c", id=number + 1, result={"content": [number]})
        sides.at_client(number * 100 + 12, "s2c", id=number, result={"content": [number]})
    with opened(sides.paths()) as connection:
        assert connection.execute("from lost_between").fetchall() == []
        ids = connection.execute(
            "select client_id, server_id, is_id_changed from both_sides where method = 'tools/call'"
        ).fetchall()
    assert ids == [(str(number), str(number + 1), True) for number in range(1, 6)]


def test_which_of_equal_calls_was_lost_behind_a_bridge_is_not_certain(sides: TwoSides) -> None:
    for number in range(1, 4):
        params = {"name": "echo", "arguments": {}}
        sides.at_client(number * 100, "c2s", id=number, method="tools/call", params=params)
        if number != 2:
            sides.at_server(number * 100 + 2, "c2s", id=number + 10, method="tools/call", params=params)
    sides.at_client(900, "c2s", id=9, method="tools/list")
    sides.at_server(902, "c2s", id=19, method="tools/list")
    assert sides.lost() == [("request_lost", False, "tools/call")]


def test_the_trace_context_pairs_calls_that_look_alike(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path)
    for number, trace in ((1, TRACE), (2, TRACE.replace("4bf9", "0000")), (3, TRACE.replace("4bf9", "1111"))):
        params = {"name": "echo", "arguments": {}, "_meta": {"traceparent": trace}}
        sides.at_client(number * 100, "c2s", id=number, method="tools/call", params=params)
        if number != 2:
            sides.at_server(number * 100 + 2, "c2s", id=number + 10, method="tools/call", params=params)
    assert sides.lost("what, is_certain, client_ms") == [("request_lost", True, 200.0)]


def test_only_the_time_that_both_captures_cover_counts(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, opened_ms=1000)
    sides.at_client(100, "c2s", id=1, method="tools/call", params={"name": "early", "arguments": {}})
    for number in range(2, 5):
        sides.call(number * 1000, number, x=number)
    sides.at_client(9_990, "c2s", id=9, method="tools/call", params={"name": "late", "arguments": {}})
    with opened(sides.paths()) as connection:
        assert connection.execute("from lost_between").fetchall() == []
        assert connection.execute("select name from both_sides where not is_request_covered").fetchall() == [
            ("early",),
            ("late",),
        ]


def test_what_a_capture_itself_lacks_is_not_certainly_lost(sides: TwoSides) -> None:
    sides.call(100, 1, x=1)
    sides.at_client(200, "c2s", id=2, method="tools/call", params={"name": "echo", "arguments": {"x": 2}})
    sides.call(300, 3, x=3)
    client, server = sides.paths()
    lines = server.read_bytes().splitlines(keepends=True)
    # The record after the first call is lost.
    server.write_bytes(b"".join([*lines[:6], *_renumbered(lines[6:], 7)]))
    with opened([client, server]) as connection:
        assert connection.execute("select lost from captures order by lost").fetchall() == [(0,), (1,)]
        assert connection.execute("select what, is_certain from lost_between").fetchall() == [("request_lost", False)]


def _renumbered(lines: list[bytes], first: int) -> Iterator[bytes]:
    """The records with other numbers."""
    for number, line in enumerate(lines, first):
        record = json.loads(line)
        rest = {name: value for name, value in record.items() if name not in ("seq", "t_ns", "rec", "crc")}
        yield seal(number, record["t_ns"], record["rec"], members(**rest))


def test_clocks_of_two_machines_may_differ(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, clock_ms=-200_000, machine="far")
    sides.call(100, 1, x=1)
    sides.at_client(200, "c2s", id=2, method="ping")
    sides.call(300, 3, x=3)
    assert sides.lost() == [("request_lost", True, "ping")]


def test_captures_of_different_days_have_nothing_in_common(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, clock_ms=DAY / MS)
    sides.call(100, 1, x=1)
    with opened(sides.paths()) as connection:
        assert connection.execute("from both_sides").fetchall() == []


def test_another_order_is_a_fact_and_no_loss(sides: TwoSides) -> None:
    for number, late_ms in ((1, 40), (2, 0)):
        params = {"name": "echo", "arguments": {"x": number}}
        sides.at_client(100 + number, "c2s", id=number, method="tools/call", params=params)
        sides.at_server(110 + number + late_ms, "c2s", id=number, method="tools/call", params=params)
    with opened(sides.paths()) as connection:
        assert connection.execute("from lost_between").fetchall() == []
        assert connection.execute("select client_id from both_sides where is_order_changed").fetchall() == [("2",)]


def test_of_more_than_two_captures_only_those_with_evidence_are_compared(sides: TwoSides, tmp_path: Path) -> None:
    sides.call(100, 1, x=1)
    paths = sides.paths()
    with opened([*paths, CaptureWriter(tmp_path / "third.mcpcap", "other", 1).close(5)]) as connection:
        assert connection.execute("from both_sides").fetchall() == []
    traced = TwoSides(tmp_path)
    traced.request(100, 1, "tools/call", name="echo", arguments={}, _meta={"traceparent": TRACE})
    traced.at_client(200, "c2s", id=2, method="ping")
    with opened([*traced.paths(), tmp_path / "third.mcpcap"]) as connection:
        assert connection.execute("select what, method from lost_between").fetchall() == [("request_lost", "ping")]


def test_the_timeline_names_the_frame_of_the_other_capture(sides: TwoSides) -> None:
    sides.call(100, 1, x=1)
    sides.at_client(200, "c2s", id=2, method="ping")
    client, server = sides.paths()
    with opened([client, server]) as connection:
        rows = connection.execute(
            "select capture[-1:], method, frame, other_capture[-1:], other_frame from timeline "
            "where method <> 'initialize'"
        ).fetchall()
    assert rows == [
        ("7", "notifications/initialized", 3, "3", 3),
        ("3", "notifications/initialized", 3, "7", 3),
        ("7", "tools/call", 4, "3", 4),
        ("3", "tools/call", 4, "7", 4),
        ("7", "ping", 6, None, None),
    ]
    with opened([client]) as connection:
        assert connection.execute("select count(*), count(other_frame) from timeline").fetchall() == [(4, 0)]


def test_thousands_of_equal_calls_are_paired_in_linear_time(sides: TwoSides) -> None:
    count = 4_000
    for number in range(count):
        message = {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
        sides.at_client(100 + number / 10, "c2s", **message)
        if number:
            sides.at_server(102 + number / 10, "c2s", **message)
    with opened(sides.paths()) as connection:
        assert connection.execute("select what, is_certain from lost_between").fetchall() == [("request_lost", False)]
        assert connection.execute("select count(*) from both_sides").fetchall() == [(count + 2,)]
