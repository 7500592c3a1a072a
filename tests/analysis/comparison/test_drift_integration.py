"""When which definition of a server changed over its captures, and who received which."""

from pathlib import Path
from typing import Any

from analysis.comparison.change import Place
from analysis.comparison.definitions import drift as drift_module
from analysis.comparison.definitions.drift import Drift, drift
from tests.analysis.store.capture_writer import DAY, MS, OPENED, CaptureWriter


def tool(name: str, description: str = "Says the weather of a place.", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def recording(folder: Path, day: int, *tools: dict[str, Any], version: str = "1.0", is_cut: bool = False) -> Path:
    writer = CaptureWriter(folder / f"day{day}.mcpcap", "weather", day, OPENED + day * DAY)
    writer.handshake(version=version)
    writer.ask(20, 1, "tools/list")
    writer.answer(21, 1, tools=list(tools), **({"nextCursor": "more"} if is_cut else {}))
    return writer.close()


def request_for_tools(folder: Path, day: int, code: int) -> Path:
    """Write a capture in which the tools were requested, and the answer is an error, or missing if `code` is 0."""
    writer = CaptureWriter(folder / f"day{day}.mcpcap", "weather", day, OPENED + day * DAY)
    writer.handshake()
    writer.ask(20, 1, "tools/list")
    if code:
        writer.say(21, "s2c", id=1, error={"code": code, "message": "no"})
    return writer.close()


def kinds_of(history: Drift) -> list[tuple[str, list[str]]]:
    return [(row.tool, [change.kind.id for change in row.changes]) for row in history.rows]


def test_each_change_of_a_definition_is_told_with_its_time_and_who_received_which(tmp_path: Path) -> None:
    paths = [
        recording(tmp_path, 0, tool("forecast", annotations={"readOnlyHint": True}), tool("alerts")),
        recording(tmp_path, 1, tool("alerts"), tool("forecast", annotations={"readOnlyHint": True})),
        recording(tmp_path, 2, tool("forecast"), tool("alerts"), version="1.1"),
        recording(tmp_path, 3, tool("forecast", "Says it\u200b."), tool("alerts"), version="1.1"),
    ]
    history = drift(paths)
    assert kinds_of(history) == [
        ("forecast", ["tool/annotation-weakened"]),
        ("forecast", ["definition/hidden-text", "definition/description-changed"]),
    ]
    first, second = history.rows
    assert (first.server, first.version_before, first.version) == ("weather", "1.0", "1.1")
    assert first.time_ns == OPENED + 2 * DAY + 21 * MS
    assert [(each.path, each.session, each.client) for each in first.before.first] == [
        (str(paths[0]), 1, "c 1"),
        (str(paths[1]), 1, "c 1"),
    ]
    assert (first.before.total, first.after.total, second.after.total) == (2, 1, 1)
    assert second.before == first.after
    assert (first.changes[0].old, first.changes[0].new) == (Place(str(paths[1]), 1, 5), Place(str(paths[2]), 1, 5))
    assert (history.captures, history.sessions, history.definitions) == (4, 4, 4)
    assert (history.is_truncated, history.unjudged, history.refused) == (False, 0, ())


def test_tools_that_come_go_or_are_renamed_are_told(tmp_path: Path) -> None:
    paths = [
        recording(tmp_path, 0, tool("forecast"), tool("tides", "Says when the tides are.")),
        recording(tmp_path, 1, tool("weather_forecast"), tool("tides", "Says when the tides are.")),
        recording(tmp_path, 2, tool("weather_forecast"), tool("storms", "Warns of storms.")),
        recording(tmp_path, 3, tool("weather_forecast"), is_cut=True),
        recording(tmp_path, 4, tool("weather_forecast"), tool("storms", "Warns of storms.")),
        recording(tmp_path, 5),
    ]
    history = drift(paths)
    assert kinds_of(history) == [
        ("forecast", ["tool/renamed"]),
        ("storms", ["tool/added"]),
        ("tides", ["tool/removed"]),
        ("storms", ["tool/removed"]),
        ("weather_forecast", ["tool/removed"]),
    ]
    renamed, came, went, *_ = history.rows
    assert renamed.changes[0].after == "weather_forecast"
    assert (renamed.before.total, renamed.after.total) == (1, 4)
    assert (came.before.total, came.after.total) == (0, 2)
    assert (went.before.total, went.after.total) == (2, 0)


def test_who_received_a_definition_is_counted_until_it_changes_or_goes(tmp_path: Path) -> None:
    first, second, other = tool("forecast"), tool("forecast", "Says it."), tool("alerts", "Warns of storms.")
    lists = [[first], [first, other], [second, other], [first], [first], [first, other], [second]]
    history = drift(recording(tmp_path, day, *tools) for day, tools in enumerate(lists))
    totals = {
        (row.tool, row.new.capture[-11:-7]): (row.before.total, row.after.total) for row in history.rows if row.new
    }
    assert totals == {
        ("alerts", "day1"): (0, 2),
        ("forecast", "day2"): (2, 1),
        ("forecast", "day3"): (1, 3),
        ("alerts", "day3"): (2, 0),
        ("alerts", "day5"): (0, 1),
        ("forecast", "day6"): (3, 1),
        ("alerts", "day6"): (1, 0),
    }
    went = next(row for row in history.rows if row.tool == "alerts" and row.hash is None)
    assert (went.old, went.new) == tuple(Place(str(tmp_path / f"day{day}.mcpcap"), 1, 5) for day in (2, 3))
    assert went.changes[0].new == went.new


def test_servers_are_told_apart_by_both_names(tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(("weather", "climate")):
        writer = CaptureWriter(tmp_path / f"{name}.mcpcap", "node", number, OPENED + number * DAY)
        writer.handshake(name=name)
        writer.ask(20, 1, "tools/list")
        writer.answer(21, 1, tools=[tool("forecast", name)])
        paths.append(writer.close())
    history = drift(paths)
    assert history.rows == ()
    (notice,) = history.notices
    assert notice == "node calls itself 'weather', then 'climate': definitions under different names are not compared"
    assert drift(paths[:1]).notices == ()


def test_a_capture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.mcpcap").write_bytes(b"no capture\n")
    history = drift([recording(tmp_path, 0, tool("forecast")), tmp_path / "none.mcpcap"])
    assert [path.name for path, _ in history.refused] == ["none.mcpcap"]


def test_captures_that_may_hide_a_change_are_named(tmp_path: Path) -> None:
    whole = [recording(tmp_path, day, tool("forecast")) for day in range(2)]
    assert drift(whole).incomplete == ()
    damaged, lost = recording(tmp_path, 2, tool("forecast", "Another one.")), recording(tmp_path, 3, tool("other"))
    lines = damaged.read_bytes().split(b"\n")
    damaged.write_bytes(b"\n".join([*lines[:5], lines[5].replace(b"Another", b"another"), *lines[6:]]))
    lines = lost.read_bytes().split(b"\n")
    lost.write_bytes(b"\n".join([*lines[:5], *lines[6:]]))
    cut = recording(tmp_path, 4, tool("forecast"), is_cut=True)
    refused, absent, unanswered = (
        request_for_tools(tmp_path, day, code) for day, code in ((5, -32603), (6, -32601), (7, 0))
    )
    history = drift([*whole, damaged, lost, cut, refused, absent, unanswered])
    assert history.rows == ()
    assert history.incomplete == (
        (damaged, "it is damaged, records are lost, a request for the tools was not answered"),
        (lost, "records are lost, a request for the tools was not answered"),
        (cut, "a list of tools is not known to be complete"),
        (refused, "a request for the tools got an error"),
        (unanswered, "a request for the tools was not answered"),
    )


def test_changes_beyond_the_limits_are_counted(tmp_path: Path, monkeypatch: Any) -> None:
    paths = [recording(tmp_path, day, tool("forecast", f"Version {day}")) for day in range(4)]
    monkeypatch.setattr(drift_module, "MAX_EFFORT", 2)
    history = drift(paths)
    assert (len(history.rows), history.unjudged, history.is_truncated) == (3, 1, False)
    monkeypatch.setattr(drift_module, "MAX_ROWS", 2)
    assert (len(drift(paths).rows), drift(paths).is_truncated) == (2, True)


def test_hostile_definitions_are_told(tmp_path: Path) -> None:
    twice = tool("forecast", "Another one.")
    paths = [
        recording(tmp_path, 0, tool("forecast"), twice, {"name": "\ud800"}, tool("'; drop table tools --")),
        recording(tmp_path, 1, twice, tool("forecast"), tool("x" * 300), tool("x" * 299 + "y")),
        recording(tmp_path, 2, tool("forecast", "\x1b[8m" * 100), {"name": "forecast", "inputSchema": 2**70}),
    ]
    history = drift(paths)
    assert [row for row in history.rows if not row.changes and not row.tool.startswith("xxx")] == []
    assert history.unjudged == 0
