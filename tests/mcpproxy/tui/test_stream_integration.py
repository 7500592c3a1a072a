"""Following a raw stream on the screen: directions, search, pages, the live end, and a file of it."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui.screens.stream import StreamScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import lines
from tests.harness import ROOT
from tests.mcpproxy.tui.stage import FINE, Stage, captured, conversation, frame_record, play, record

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


def screen_of(stage: Stage) -> StreamScreen:
    assert isinstance(stage.app.screen, StreamScreen)
    return stage.app.screen


def test_a_stream_is_shown_searched_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = record(
        tmp_path / "long" / "a.mcpcap", [*conversation(3, "long"), *[frame_record("s2c", FINE % (7, 7))] * 900]
    )

    async def act(stage: Stage) -> None:
        await stage.open("library")
        await stage.press("R")
        await stage.see("› stream", '→  {"jsonrpc"', '←  {"jsonrpc"', "+0.001", "1.5 kB")
        await stage.press("d")
        await stage.see("→ only the client")
        await stage.until(lambda: "←  {" not in stage.text())
        await stage.press("d", "t")
        await stage.see("← only the server")
        await stage.until(lambda: "+0.002" not in stage.text())
        await stage.press("d", "slash", *"no such page", "enter")
        await stage.see("1 of 2", "n N")
        await stage.press("n")
        await stage.see("2 of 2")
        # Enter leads to the frame of the match, and Esc back.
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        await stage.until(lambda: stage.traffic.entry == 15)
        await stage.press("escape", "escape")
        assert isinstance(stage.app.screen, StreamScreen)
        await stage.press("e")
        await stage.see("of this stream to", "library-20261121T101502Z-4f2a-stream.txt")
        await stage.press("enter")
        await stage.see("exported 1.5 kB")
        await stage.squeezed()
        await stage.back()
        # Pages; the page of the row comes first.
        await stage.open("long")
        await stage.press("G", "up", "R")
        await stage.see("page 4 of 4", "found 7", "[ ] pages")
        # Keys that move go from page to page.
        await stage.press("g")
        await stage.see("page 1 of 4", "initialize")
        await stage.press("up")
        await stage.see("page 1 of 4")
        await stage.press("G", "g", "right_square_bracket")
        await stage.see("page 2 of 4")
        await stage.press("pageup")
        await stage.see("page 1 of 4")
        await stage.press("pagedown")
        await stage.see("page 2 of 4")
        await stage.press("G")
        await stage.see("page 4 of 4")
        await stage.press("left_square_bracket")
        await stage.see("page 3 of 4")
        await stage.press("slash", *"notifications/init", "enter")
        await stage.see("1 of 1", "page 1 of 4")

    play(act, captured(tmp_path), long)
    (written,) = tmp_path.glob("*-stream.txt")
    assert written.stat().st_mode & 0o777 == 0o600
    assert len(written.read_bytes().splitlines()) == 16


def test_over_http_it_is_the_exchange_or_the_session(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("R")
        await stage.see("exchange 1", "→  POST /mcp HTTP/1.1", "←  HTTP/1.1 200 OK", "two\\nlines", "(empty)")
        await stage.press("s")
        await stage.until(lambda: "POST" not in stage.text())
        await stage.press("s")
        await stage.see("exchange 1", "POST")

    path = tmp_path / "http" / "a.mcpcap"
    path.parent.mkdir()
    path.write_bytes(HTTP.read_bytes())
    play(act, path)


def test_a_live_stream_is_followed(tmp_path: Path) -> None:
    live = CaptureFile(tmp_path / "live.mcpcap")
    for line in lines(conversation(1)):
        live.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        await stage.until(lambda: len(stage.traffic.table.rows))
        await stage.press("R")
        await stage.see("found 1", "● following")
        for number in range(40):
            live.append(seal(50 + number, 10**9, "frame", frame_record("s2c", FINE % (number, number))[1]))
        await stage.see("found 39", "● following")
        await stage.press("up")
        await stage.until(lambda: "● following" not in stage.text())
        await stage.press("G")
        await stage.see("● following")

    play(act, tmp_path / "live.mcpcap")
    live.close()
