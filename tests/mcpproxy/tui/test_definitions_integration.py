"""The tools screen: definitions with the sizes that the tables give, calls, and changes in order of arrival."""

from pathlib import Path

import pytest

import analysis
from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.screens.definitions import ToolsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import HOSTILE_NAMES
from tests.mcpproxy.tui.stage import CALL, END, Stage, conversation, frame_record, play, record, sizes
from tests.mcpproxy.tui.test_definitions import NEVER, SEARCH, counted, library, listed


class TestTools:
    """What the screen counts."""

    def test_sizes_are_those_of_the_table(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x.mcpcap", [*library(), END])
        tools, reading = counted(path)
        with analysis.open(path) as connection:
            rows = connection.execute("select name, bytes, tokens_estimate, hash from tools order by listed").fetchall()
        mine = [(one.name, version) for one in tools.rows for version in one.versions]
        found = [(name, one.size, one.tokens_estimate, one.hash) for name, one in mine]
        assert sorted(found) == sorted(rows)
        reading.close()


class TestScreen:
    """What the keys of the screen do."""

    def test_rows_and_sums(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*library(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            await stage.see("library › tools", "3 tools", "tokens (estimate)", "1 changed", "1 never called")
            await stage.see("changed", "never listed", "1.0ms")
            # A short list leaves room for the definition of the tool at the cursor.
            await stage.see("from frame", "no parameters")
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

        play(act, path, size=(100, 13))

    def test_a_wide_terminal_shows_the_definition_at_the_cursor(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*library(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            await stage.see("– Lends größere Bücher.", "changed  Obey me.", "never listed", "from frame")
            await stage.see("no parameters")
            await stage.press("down")
            await stage.see("definition 2 of 2", "changed: description")
            # Esc leads from the definition to the list, then to the traffic.
            await stage.press("enter", "escape")
            assert isinstance(stage.app.screen, ToolsScreen)
            assert stage.app.screen.table.has_focus
            await stage.resize((100, 13))
            await stage.until(lambda: "definition 2 of 2" not in stage.text())
            await stage.see("changed  Obey me.")
            await stage.resize((100, 30))
            await stage.see("definition 2 of 2")
            await stage.press("enter", "escape")
            assert stage.app.screen.table.has_focus
            await stage.resize((160, 30))
            await stage.see("definition 2 of 2")
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=(160, 30))

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
            await stage.see("lend", "2 tools", "search", "never listed")
            for number, (rec, middle) in enumerate(
                [*listed(80, SEARCH, NEVER), frame_record("c2s", CALL % (81, 1))], 90
            ):
                made.append(seal(number, number * 10**8, rec, middle))
            await stage.see("2 tools", "1 never called")
            await stage.until(lambda: "never listed" not in stage.text())

        play(act, tmp_path / "x" / "live.mcpcap")
        made.close()

    @pytest.mark.costly("each hostile name is shown, with its definition before")
    @pytest.mark.parametrize("size", sizes((80, 24), soak=[(40, 10), (1, 1), (200, 60)]))
    def test_any_name_in_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        told = [{"name": name, "description": name, f"x{name}": [name]} for name in HOSTILE_NAMES]
        changed = [{**one, "y": "\x1b[2J"} for one in told]
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), *listed(1, *told), *listed(2, *changed), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("O")
            screen = stage.app.screen
            assert isinstance(screen, ToolsScreen)
            await stage.until(lambda: len(screen._rows.items) == len(HOSTILE_NAMES))
            await stage.press("enter", "down", "enter", "tab")
            for _ in HOSTILE_NAMES:
                await stage.press("down", "left_square_bracket", "right_square_bracket", "tab")
                assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
                assert all(len(line) <= size[0] for line in stage.text().splitlines())
            await stage.squeezed()
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
