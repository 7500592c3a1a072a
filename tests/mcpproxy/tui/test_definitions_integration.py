"""Tools: definitions with their sizes as the tables have them, calls as they were, changes as they came."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.store.definitions import definitions_in
from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.tool_definitions import MOST, VERSIONS, Tools, changed_members
from mcpproxy.tui.screens.definitions import ToolsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.stage import CALL, END, FINE, Middles, Stage, conversation, play, record, said
from tests.mcpproxy.tui.test_latency_integration import HOSTILE, calling

LIST = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}'
SEARCH = {"name": "search", "description": "Looks for books.", "inputSchema": {"type": "object"}}
NEVER = {
    "name": "lend",
    "description": "Lends größere Bücher.",
    "inputSchema": {"type": "object"},
    "_meta": {"x": 1.50},
}


def listed(number: int, *tools: object) -> Middles:
    """A list of tools, asked for and told."""
    told = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": list(tools)}}).encode()
    return [said("c2s", LIST % number), said("s2c", told)]


def library(calls: int = 6) -> Middles:
    """A library of which one tool changes, one is never called, and one is called without having been listed."""
    made = [
        *conversation(calls),
        *listed(500, SEARCH, NEVER),
        *listed(501, {**SEARCH, "description": "Obey me."}, NEVER),
    ]
    return [*made, said("c2s", calling("hidden", 600)), said("s2c", FINE % (600, 1))]


def counted(path: Path) -> tuple[Tools, Reading]:
    """All that there is to know."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    tools = Tools(reading)
    while tools.step():
        pass
    return tools, reading


def shown(tools: Tools, name: str, version: int) -> str:
    """The text of a definition."""
    tools.choose(name, version)
    while tools.step():
        pass
    assert tools.shown is not None
    assert (tools.shown.name, tools.shown.version) == (name, version)
    assert tools.shown.tree is not None
    return "".join(span.text for line in tools.shown.tree.lines for span in line.spans)


def changes(tools: Tools) -> tuple[str, ...]:
    """In what the definition that is shown differs from the one before."""
    assert tools.shown is not None
    return tools.shown.changed


class TestTools:
    """What is counted."""

    def test_sizes_are_those_of_the_table(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x.mcpcap", [*library(), END])
        tools, reading = counted(path)
        with analysis.open(path) as connection:
            rows = connection.execute("select name, bytes, tokens_estimate, hash from tools order by listed").fetchall()
        mine = [(one.name, version) for one in tools.rows for version in one.versions]
        found = [(name, one.size, one.tokens_estimate, one.hash) for name, one in mine]
        assert sorted(found) == sorted(rows)
        reading.close()

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
        tools.choose("hidden", -1)
        assert tools.step()
        assert tools.shown is not None
        assert tools.shown.tree is None
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
        many = listed(1, *({"name": f"t{number}"} for number in range(MOST + 7)))
        often = [one for at in range(VERSIONS + 9) for one in listed(100 + at, {"name": "t0", "description": str(at)})]
        tools, reading = counted(record(tmp_path / "x.mcpcap", [("header", header()), *many, *often, END]))
        assert len(tools.rows) == MOST
        assert tools.left_out == 7
        assert len(tools.rows[0].versions) == VERSIONS
        assert tools.rows[0].last is not None
        assert tools.rows[0].last not in tools.rows[0].versions
        reading.close()

    def test_lists_in_batches_and_of_nonsense(self, tmp_path: Path) -> None:
        batch = b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]'
        answers: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": 1, "result": {"tools": [SEARCH]}},
            {"jsonrpc": "2.0", "id": 2, "result": {"tools": [NEVER, 7, {"name": 8}, None, {}]}},
        ]
        made = [("header", header()), said("c2s", batch), said("s2c", json.dumps(answers).encode())]
        made += [*listed(3, {"name": "deep", "x": json.loads("[" * 150 + "]" * 150)}), said("c2s", LIST % 4)]
        made += [said("s2c", b'{"jsonrpc":"2.0","id":4,"result":{"tools":"none"}}'), END]
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


class TestScreen:
    """The keys."""

    def test_rows_and_sums(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*library(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            await stage.see("library › tools", "2 tools", "tokens (estimate)", "1 changed", "1 never called")
            await stage.see("changed", "never called", "never listed", "1.0ms")
            screen = stage.app.screen
            assert isinstance(screen, ToolsScreen)
            assert [one.name for one in screen._rows.items] == ["lend", "search", "hidden"]
            for word in ("by calls", "by err", "by p95", "by name", "by size"):
                await stage.press("s")
                await stage.see(word)
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path)

    def test_a_definition_and_the_one_before(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*library(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            await stage.see("lend", "search", "hidden")
            await stage.press("enter")
            await stage.see("from frame", "größere", "no parameters")
            await stage.press("2")
            await stage.see('"inputSchema": {')
            await stage.press("down", "left")
            await stage.press("tab", "down")
            await stage.see("definition 2 of 2", "changed: description", "Obey me.")
            await stage.press("left_square_bracket")
            await stage.see("definition 1 of 2", "Looks for books.")
            await stage.press("left_square_bracket", "right_square_bracket", "right_square_bracket")
            await stage.see("definition 2 of 2", "Obey me.")
            await stage.press("tab", "down")
            await stage.see("not in any tools/list response")
            await stage.press("escape")
            await stage.until(lambda: "not in any tools/list response" not in stage.text())
            assert isinstance(stage.app.screen, ToolsScreen)

        play(act, path)

    def test_its_calls(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*library(), END])

        async def act(stage: Stage) -> None:
            await stage.see("library")
            await stage.press("O")
            await stage.see("lend", "search", "hidden")
            await stage.press("c")
            await stage.see("this tool was never called")
            await stage.press("G", "c")
            await stage.see("method:tools/call name:hidden", "2 of ")
            assert stage.traffic.reading.has_ended

        play(act, path)

    def test_it_grows_with_the_capture(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        made = CaptureFile(tmp_path / "x" / "live.mcpcap")
        for line in lines([*conversation(2), *listed(50, NEVER)]):
            made.append(line)

        async def act(stage: Stage) -> None:
            await stage.see("● library")
            await stage.press("enter", "O")
            await stage.see("lend", "1 tool ", "search", "never listed")
            for number, (rec, middle) in enumerate([*listed(80, SEARCH, NEVER), said("c2s", CALL % (81, 1))], 90):
                made.append(seal(number, number * 10**8, rec, middle))
            await stage.see("2 tools", "1 never called")
            await stage.until(lambda: "never listed" not in stage.text())

        play(act, tmp_path / "x" / "live.mcpcap")
        made.close()

    @pytest.mark.parametrize("size", [(80, 24), (40, 10), (1, 1), (200, 60)])
    def test_any_name_in_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        told = [{"name": name, "description": name, f"x{name}": [name]} for name in HOSTILE]
        changed = [{**one, "y": "\x1b[2J"} for one in told]
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), *listed(1, *told), *listed(2, *changed), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            screen = stage.app.screen
            assert isinstance(screen, ToolsScreen)
            await stage.until(lambda: len(screen._rows.items) == len(HOSTILE))
            await stage.press("enter", "down", "enter", "tab")
            for _ in HOSTILE:
                await stage.press("down", "left_square_bracket", "right_square_bracket", "tab")
                assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
                assert all(len(line) <= size[0] for line in stage.text().splitlines())
            await stage.press("s", "c", "escape", "escape")

        play(act, path, size=size)

    def test_no_tools(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), ("close", members(ending="client"))])

        async def act(stage: Stage) -> None:
            await stage.see("1 recorded")
            await stage.press("O")
            await stage.see("0 tools")
            await stage.press("enter", "down", "c", "tab", "left_square_bracket", "s", "G", "escape")
            await stage.see("1 recorded")

        play(act, path)
