"""Where a list of tools says what a call has to fit, and that the findings show it."""

from pathlib import Path

from tests.mcpproxy.tui.stage import END, Stage, conversation, play, record, said
from tests.mcpproxy.tui.test_definition_place import CALLED, LISTED

LIST = b'{"jsonrpc":"2.0","id":50,"method":"tools/list"}'


def test_a_finding_about_arguments_shows_the_schema_of_the_tool(tmp_path: Path) -> None:
    talk = [said("c2s", LIST), said("s2c", LISTED), said("c2s", CALLED)]
    path = record(tmp_path / "library" / "x.mcpcap", [*conversation(0), *talk, END])

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("F")
        await stage.see("tool/arguments-invalid", "do not fit the inputSchema of 'add'", "all ", "records checked")
        await stage.press("down")
        await stage.see("frame 7", "the first number", "^^^^")
        assert "long long" not in stage.text()

    play(act, path, size=(140, 40))
