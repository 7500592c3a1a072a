"""Configured keys: by binding name, with a warning for entries that make no sense, and all on the help page."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.screens.help import ROWS, HelpScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.widgets.foot import Foot
from tests.mcpproxy.tui.stage import Act, Stage, captured, play, play_each, sizes
from tests.mcpproxy.tui.test_keys import write


def foot(stage: Stage) -> str:
    """The line of keys at the bottom of the screen."""
    return stage.text().splitlines()[-1]


def fits(told: str, whole: str, width: int) -> bool:
    """Whether the line has the first of these keys and, at its end, the general ones, as far as there is room for them,
    and shows none of them in part."""
    general = re.search(r"\? help q quit(?: esc back)?$", whole)
    assert general is not None, whole
    first, is_whole = told.removesuffix(general[0]), told.endswith(general[0])
    keys = whole[: general.start()] if is_whole else general[0] + " "
    return len(told) <= width and keys.startswith(first) and (not first or first[-1] == " " or keys[len(first)] == " ")


async def each_screen_shows_its_keys_whole_and_help_begins_with_them(
    stage: Stage, widths: Sequence[int] = (80, 6)
) -> None:
    await stage.listed()
    others = ((entry.key, entry.word) for entry in entries() if entry.word != "sql")
    for key, word in (("", "sessions"), ("enter", "traffic"), *others):
        await stage.press(*([key] if key else ()))
        await stage.pilot.resize_terminal(200, 24)
        await stage.until(lambda: not key or "esc back" in foot(stage), f"esc back after {key}")  # noqa: B023
        await stage.settled()
        whole = foot(stage)
        assert "? help q quit" in whole, key
        for width in (*widths, 200):
            await stage.pilot.resize_terminal(width, 24)
            told = f"some of {whole!r} in {width} after {key}"
            await stage.until(lambda: fits(foot(stage), whole, width), told)  # noqa: B023 - asked at once
            assert fits(foot(stage), whole, width), told
            if width == 80:
                assert "q quit" in foot(stage), key
                assert key == "enter" or not key or "esc back" in foot(stage), key
        await stage.until(lambda: foot(stage) == whole, f"{whole!r} again after {key}")  # noqa: B023 - asked at once
        await stage.press("question_mark")
        await stage.until(lambda: bool(section(stage)), f"the help after {key}")
        assert word in section(stage).split(", "), key
        await stage.press("escape", *(["escape"] if key else ()))
        await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))


async def the_palette_has_what_a_screen_does_with_its_key(stage: Stage) -> None:
    await stage.open()
    await stage.press("ctrl+p")
    await stage.press(*"exchanges")
    await stage.see("Exchanges  x", "switch between frames and exchanges")
    await stage.press("enter", "enter")
    await stage.see(" outcome ")
    await stage.press("ctrl+p")
    await stage.press(*"latency")
    await stage.see("Latency  L")


@pytest.mark.soak
def test_keys_are_shown_whole_in_any_width(tmp_path: Path) -> None:
    shown_whole = each_screen_shows_its_keys_whole_and_help_begins_with_them
    play(partial(shown_whole, widths=(140, 80, 40, 20, 6)), captured(tmp_path))


async def keys_are_drawn_anew_only_when_they_change(stage: Stage) -> None:
    await stage.resize((200, 30))
    await stage.open()
    await stage.see("? help", "T timeline")
    line = stage.traffic.query_one(Foot)
    before = line.texts
    assert foot(stage).split() == " ".join(before).split()
    drawn = []
    for keys in (line._keys, line._keys[1:]):
        line._keys = keys
        line._renew()
        drawn.append(line._repaint_required)
    assert drawn == [False, True]
    assert line.texts == before
    below_mouse = []
    for selector, place in ((Foot, (len(before[0]) + 2, 0)), ("#traffic", (5, 5)), (Foot, (len(before[0]) + 2, 0))):
        await stage.pilot.hover(selector, offset=place)
        await stage.drawn()
        below_mouse.append(line._hovered_key)
    assert below_mouse == [line._keys[1], None, line._keys[1]]
    pointed, other = (line.render_line(0).crop(x, x + 1)._segments[0].style for x in (len(before[0]) + 2, 0))
    assert pointed is not None
    assert other is not None
    assert pointed.bgcolor != other.bgcolor
    await stage.press("enter")
    await stage.until(lambda: "⏎ open" not in foot(stage))
    assert foot(stage).split() == " ".join(line.texts).split()
    await stage.press("escape")
    await stage.see("⏎ open", "T timeline")
    assert line.texts == before


async def the_keys_that_traffic_needs_most_fit_into_80_columns(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open()
    assert re.findall(r"\S+ (\w+)", foot(stage))[:10] == [
        "open", "filter", "errors", "sort", "next", "pair", "follow", "help", "quit", "back",
    ]  # fmt: skip


@pytest.mark.parametrize("size", sizes((40, 60), soak=[(80, 70), (140, 70)]))
def test_keys_are_those_of_the_user_and_help_is_to_be_read_to_the_end(tmp_path: Path, size: tuple[int, int]) -> None:
    times = 'times = ["ctrl+alt+shift+f11", "ctrl+alt+shift+f12"]'
    write(f'[keys]\npair = "P"\nmark = ["ctrl+n", "*"]\nquit = "Q"\nfly = "f"\n{times}\n')

    async def act(stage: Stage) -> None:
        await stage.see("recorded", "there is no action fly")
        # The action that had the key before has none on that screen, and shows none.
        assert "Q quit" in stage.text()
        assert "Q sql" not in stage.text()
        await stage.open()
        await stage.press("down", "p")
        assert stage.traffic.entry == 2
        await stage.press("P")
        assert stage.traffic.entry == 1
        await stage.press("asterisk")
        await stage.see("◆+0.001")
        await stage.press("ctrl+n")
        await stage.until(lambda: "◆" not in stage.text())
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, HelpScreen)
        await stage.see("  Q                   quit; sessions", "  P                   go from a request")
        await stage.press("G")
        await stage.see("your keys, from keys.toml", "ctrl+n,*")
        await stage.press("escape")
        await stage.resize(size)
        await stage.press("question_mark")
        read: list[str] = []
        for _ in range(8):
            inside = [line.partition("│")[2].rpartition("│")[0] for line in stage.text().splitlines()]
            assert [line for line in inside if "…" in line] == []
            read += " ".join(inside).split()
            await stage.press("pagedown")
        # The last words of the longest texts are shown, so no text is cut.
        assert {"everything", "died", "again", "message"} <= set(read)
        await stage.press("escape", "Q")
        assert SqlScreen not in map(type, stage.app.screen_stack)
        await stage.until(lambda: stage.app._exit)

    play(act, captured(tmp_path), size=(100, 60))


def section(stage: Stage) -> str:
    """The first heading of the help page; empty while the page is not shown."""
    titles = {row.keys for row in ROWS if not row.text}
    lines = [[*line.split("│"), ""][1].strip("▁▂▃▄▅▆▇█ ") for line in stage.text().splitlines()]
    return next((line for line in lines if line in titles), "")


@pytest.mark.costly("the keys and the help of nine screens, in three widths")
def test_the_line_of_keys_and_the_help(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        each_screen_shows_its_keys_whole_and_help_begins_with_them,
        the_keys_that_traffic_needs_most_fit_into_80_columns,
        keys_are_drawn_anew_only_when_they_change,
        the_palette_has_what_a_screen_does_with_its_key,
    )
    play_each(acts, captured(tmp_path))
