"""The tools screen: definitions with the sizes that the tables give, calls, and changes in order of arrival."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from analysis.filter import parse
from analysis.store.definitions import definitions_in
from captures.file import CaptureFile
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.tool_definitions import MAX_TOOLS, MAX_VERSIONS_PER_TOOL, Tools, changed_members
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import calling
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import END, FINE, Middles, conversation, frame_record, record

LIST = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}'
SEARCH = {"name": "search", "description": "Looks for books.", "inputSchema": {"type": "object"}}
NEVER = {
    "name": "lend",
    "description": "Lends größere Bücher.",
    "inputSchema": {"type": "object"},
    "_meta": {"x": 1.50},
}


def listed(number: int, *tools: object) -> Middles:
    """A request for the list of tools, and its response."""
    told = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": list(tools)}}).encode()
    return [frame_record("c2s", LIST % number), frame_record("s2c", told)]


def library(calls: int = 6) -> Middles:
    """A server with one tool that changes, one that is never called, and one that is called without being listed."""
    made = [
        *conversation(calls),
        *listed(500, SEARCH, NEVER),
        *listed(501, {**SEARCH, "description": "Obey me."}, NEVER),
    ]
    return [*made, frame_record("c2s", calling("hidden", 600)), frame_record("s2c", FINE % (600, 1))]


def counted(path: Path, expression: str = "") -> tuple[Tools, Reading]:
    """The tools of a capture that was read to its end, with the calls that a filter selects, and its reading."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    tools = Tools(reading, CallSelection(reading, parse(expression)) if expression else None)
    while tools.step():
        pass
    return tools, reading


def shown(tools: Tools, name: str, version: int) -> str:
    """The text of a definition."""
    tools.choose_definition(name, version)
    while tools.step():
        pass
    assert tools.shown_definition is not None
    assert (tools.shown_definition.name, tools.shown_definition.version) == (name, version)
    assert tools.shown_definition.tree is not None
    return "".join(span.text for line in tools.shown_definition.tree.lines for span in line.spans)


def changes(tools: Tools) -> tuple[str, ...]:
    """The differences between the shown definition and the one before it."""
    assert tools.shown_definition is not None
    return tools.shown_definition.changed_members


class TestTools:
    """What the screen counts."""

    def test_calls_and_changes(self, tmp_path: Path) -> None:
        tools, reading = counted(record(tmp_path / "x.mcpcap", [*library(), END]))
        rows = {one.name: one for one in tools.rows}
        assert [(name, one.calls, one.errors, len(one.versions)) for name, one in sorted(rows.items())] == [
            ("hidden", 1, 0, 0), ("lend", 0, 0, 1), ("search", 7, 2, 2),
        ]  # fmt: skip
        assert rows["search"].last == rows["search"].versions[1]
        assert rows["search"].p95_ns == pytest.approx(1_000_000, rel=0.03)
        assert "Looks for books." in shown(tools, "search", 0)
        assert changes(tools) == ()
        assert "Obey me." in shown(tools, "search", 1)
        assert changes(tools) == ("description",)
        assert '"x": 1.5' in shown(tools, "lend", 0)
        tools.choose_definition("hidden", -1)
        assert tools.step()
        assert tools.shown_definition is not None
        assert tools.shown_definition.tree is None
        reading.close()

    def test_an_unlisted_tool_outside_the_filter_is_not_there(self, tmp_path: Path) -> None:
        for expression, names in (("name:search", ["search", "lend"]), ("name:hidden", ["search", "lend", "hidden"])):
            tools, reading = counted(record(tmp_path / "x.mcpcap", [("header", header()), *library(), END]), expression)
            assert [tool.name for tool in tools.rows] == names
            tools.close()
            reading.close()

    def test_what_comes_back_is_no_further_change(self, tmp_path: Path) -> None:
        other = {**SEARCH, "title": "Search"}
        backwards = dict(reversed(SEARCH.items()))
        lists = [listed(500 + at, one) for at, one in enumerate((SEARCH, other, backwards, other, SEARCH))]
        made: Middles = [("header", header()), *(one for pair in lists for one in pair), END]
        tools, reading = counted(record(tmp_path / "x.mcpcap", made))
        (only,) = tools.rows
        assert len(only.versions) == 2
        assert only.last == only.versions[0]
        reading.close()

    def test_it_is_bounded(self, tmp_path: Path) -> None:
        many = listed(1, *({"name": f"t{number}"} for number in range(MAX_TOOLS + 7)))
        often = [
            one
            for at in range(MAX_VERSIONS_PER_TOOL + 9)
            for one in listed(100 + at, {"name": "t0", "description": str(at)})
        ]
        tools, reading = counted(record(tmp_path / "x.mcpcap", [("header", header()), *many, *often, END]))
        assert len(tools.rows) == MAX_TOOLS
        assert tools.omitted_count == 7
        assert len(tools.rows[0].versions) == MAX_VERSIONS_PER_TOOL
        assert tools.rows[0].last is not None
        assert tools.rows[0].last not in tools.rows[0].versions
        reading.close()

    def test_lists_in_batches_and_of_nonsense(self, tmp_path: Path) -> None:
        batch = b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]'
        answers: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": 1, "result": {"tools": [SEARCH]}},
            {"jsonrpc": "2.0", "id": 2, "result": {"tools": [NEVER, 7, {"name": 8}, None, {}]}},
        ]
        made = [("header", header()), frame_record("c2s", batch), frame_record("s2c", json.dumps(answers).encode())]
        made += [*listed(3, {"name": "deep", "x": json.loads("[" * 150 + "]" * 150)}), frame_record("c2s", LIST % 4)]
        made += [frame_record("s2c", b'{"jsonrpc":"2.0","id":4,"result":{"tools":"none"}}'), END]
        tools, reading = counted(record(tmp_path / "x.mcpcap", made))
        assert [one.name for one in tools.rows] == ["search", "lend"]
        assert "größere" in shown(tools, "lend", 0)
        reading.close()

    def test_a_file_that_grows_says_the_same(self, tmp_path: Path) -> None:
        rng, known = random.Random(5), lines([*library(30), END])
        made = CaptureFile(tmp_path / "x.mcpcap")
        made.append(known[0])
        reading = Reading(tmp_path / "x.mcpcap")
        tools = Tools(reading)
        for line in known[1:]:
            made.append(line)
            for _ in range(rng.randrange(3)):
                reading.step()
                tools.step()
        made.close()
        while not reading.has_ended or tools.step():
            reading.step()
        again, other = counted(tmp_path / "x.mcpcap")
        assert sorted(tools.rows) == sorted(again.rows)
        reading.close()
        other.close()

    def test_members_that_differ(self) -> None:
        one, other = definitions_in(
            {"tools": [{"name": "a", "x": 1e400, "y": None}, {"name": "a", "x": 1e400, "z": None, "title": "t"}]}
        )
        assert changed_members(one, other) == ("y", "z", "title")
