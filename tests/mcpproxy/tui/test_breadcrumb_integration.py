"""The breadcrumb shows where the user is, in any width and for any name of a capture."""

from pathlib import Path

import pytest

from mcpproxy.wording.cells import cells
from tests.captures.samples import header
from tests.mcpproxy.tui.http_talk import http_talk, post
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    INITIALIZE,
    INITIALIZED,
    Stage,
    captured,
    conversation,
    play,
    play_each,
    record,
)


def first_line(stage: Stage) -> str:
    return stage.text().splitlines()[0]


async def it_grows_with_each_step_and_a_click_goes_back(stage: Stage) -> None:
    await stage.open("library")
    await stage.see(" sessions › library  ○ exited 0")
    await stage.press("down", "enter")
    await stage.see(" sessions › library › frame 2  ")
    await stage.press("F")
    await stage.see(" sessions › library › findings  ")
    await stage.press("L")
    await stage.see(" sessions › library › latency  ")
    await stage.press("enter")
    await stage.see(" sessions › library › latency › traffic  ○ exited 0  method:")
    await stage.pilot.click("#title", offset=(1 + len("sessions › library › l"), 0))
    await stage.see(" sessions › library › latency  ")
    await stage.pilot.click("#title", offset=(1 + len("sessions › l"), 0))
    await stage.until(lambda: stage.traffic.detail.display)
    await stage.pilot.click("#title", offset=(1 + len("sessions › l"), 0))
    await stage.until(lambda: not stage.traffic.detail.display)


async def the_session_of_the_row_is_named_if_there_are_several(stage: Stage) -> None:
    await stage.open("several")
    await stage.press("g")
    await stage.see(" sessions › library · session 1  ", "session 1  initiali", "session 2  initiali")
    await stage.press("G", "up", "up")
    await stage.see(" sessions › library · session 2  ")
    await stage.back()
    await stage.open("single")
    await stage.see("initialize", " sessions › library  ")
    assert "session 1" not in stage.text()


def test_where_the_user_is(tmp_path: Path) -> None:
    made = [("header", header(transport="http", name="library"))]
    for number in (1, 3):
        made += post(number, INITIALIZE, INITIALIZED) + post(number + 1, CALL % (number, 1), FINE % (number, 1))
    several = record(tmp_path / "several" / "20261121T101502Z-4f2a.mcpcap", [*made, END])
    acts = (it_grows_with_each_step_and_a_click_goes_back, the_session_of_the_row_is_named_if_there_are_several)
    single = http_talk(tmp_path / "other").parent.rename(tmp_path / "single") / several.name
    play_each(acts, captured(tmp_path), several, single, size=(100, 24))


@pytest.mark.costly("eight screens in each of two widths")
@pytest.mark.parametrize(
    "widths", [(80, 20), pytest.param((80, 100, 140, 220, 40, 20), marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_a_hostile_name_is_text_and_a_line_is_never_too_long(tmp_path: Path, widths: tuple[int, ...]) -> None:
    name = "\x1b]0;EVIL\x07[red]図書館\u202e" + "図" * 100
    path = record(
        tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", [("header", header(name=name)), *conversation()[1:], END]
    )

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("enter")
        await stage.see("› frame 1")
        for key in ("", "F", "L", "O", "C", "T", "E", "Q"):
            await stage.press(*filter(None, [key]))
            for width in widths:
                await stage.resize((width, 24))
                line = first_line(stage)
                assert cells(line) <= width, key
                assert "……" not in line, key
                assert not {"\x1b", "\x07", "\u202e"} & set(line), key

    play(act, path)
