"""Wide characters: on every screen and in every width, columns stay aligned, and no text is cut twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from captures.record import stderr_members
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import END, Stage, frame_record, play, record, sizes

LONG = "図書館の蔵書を検索する" * 8


def wide(folder: Path) -> Path:
    """A capture in which all names and texts are wide."""
    tools = [{"name": LONG, "description": LONG * 3, "inputSchema": {"type": "object", "properties": {LONG: {}}}}]
    me = {"name": LONG, "version": "図1"}

    def message(**members: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=False).encode()

    info = {"protocolVersion": "2025-06-18", "capabilities": {}}
    made = [
        ("header", header(name=LONG)),
        frame_record("c2s", message(id=0, method="initialize", params={**info, "clientInfo": me})),
        frame_record("s2c", message(id=0, result={**info, "serverInfo": me, "instructions": LONG * 3})),
        frame_record("c2s", message(id=1, method="tools/list")),
        frame_record("s2c", message(id=1, result={"tools": tools})),
        ("stderr", stderr_members((LONG * 3).encode())),
    ]
    for number in range(2, 12):
        params = {"name": LONG, "arguments": {LONG: LONG}}
        made.append(frame_record("c2s", message(id=number, method="tools/call", params=params)))
        text = {"content": [{"type": "text", "text": LONG * 2}]}
        wrong = {"code": -32000, "message": LONG}
        made.append(
            frame_record("s2c", message(id=number, **({"error": wrong} if number % 3 == 0 else {"result": text})))
        )
    return record(folder / LONG[:20] / "20261121T101502Z-4f2a.mcpcap", [*made, END])


@pytest.mark.costly("a look at each of some twenty screens and views")
@pytest.mark.parametrize("size", sizes((80, 30), soak=[(100, 30), (140, 30), (220, 30)]))
def test_lines_are_whole_and_cut_once(tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(stage: Stage) -> None:
        wrong: list[str] = []

        async def look(place: str) -> None:
            await stage.settled()
            strips = stage.app.screen._compositor.render_strips()
            for line in ("".join(segment.text for segment in strip) for strip in strips):
                if cell_len(line) != size[0] or "……" in line:
                    wrong.append(f"{place}: {line}")

        await stage.listed()
        await look("sessions")
        await stage.open()
        await look("traffic")
        await stage.press("x")
        await look("exchanges")
        await stage.press("x", "down", "down", "down", "enter")
        for view in "1234567":
            await stage.press(view)
            await look(f"view {view}")
        await stage.press("escape")
        for key in ("F", "L", "O", "C", "T", "E", "Q"):
            await stage.press(key)
            await look(key)
            if key == "O":
                await stage.press("enter")
                await look("definition")
            await stage.back()
            await stage.press("enter")
            await stage.see("frames")
        assert not wrong, "\n".join(wrong)

    play(act, wide(tmp_path), size=size)
