"""Configured keys: by binding name, with a warning for entries that make no sense, and all on the help page."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from analysis.filter import KEYS
from mcpproxy.tui.screen_entries import places
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.widgets.foot import Foot
from tests.mcpproxy.tui.stage import Act, Stage, captured, play, play_each, sizes
from tests.mcpproxy.tui.test_keys import write


def foot(stage: Stage) -> str:
    """The keys of the place and the general keys: the last row of the screen or, above the places, the last but one."""
    return stage.text().splitlines()[-1 - has_places(stage)]


def has_places(stage: Stage) -> bool:
    """Whether the last row of the screen is that of the places."""
    return bool(re.match(r"[ ▸](\S )?sessions ", stage.text().splitlines()[-1]))


def fits(told: str, whole: str, width: int) -> bool:
    """Whether the row has the first of these keys and, at its end, the general ones, as far as there is room for them,
    and shows none of them in part."""
    *keys, general = re.split(r"  +", whole.strip())
    *told_keys, told_general = re.split(r"  +", told.replace(" . places", "").strip())
    if len(told) > width or (told_general != general and told_keys):
        return False
    return f"{general} ".startswith(f"{told_general} ") and f"{' '.join(keys)} ".startswith(" ".join(told_keys))


async def each_screen_shows_its_keys_whole_and_help_begins_with_them(
    stage: Stage, widths: Sequence[int] = (80, 6)
) -> None:
    await stage.listed()
    others = ((entry.key, entry.word) for entry in places() if entry.word != "sql")
    for key, word in (("", "sessions"), ("enter", "traffic"), *others):
        await stage.press(*([key] if key else ()))
        await stage.pilot.resize_terminal(200, 24)
        await stage.until(lambda: not key or "esc back" in foot(stage), f"esc back after {key}")  # noqa: B023
        await stage.settled()
        whole, place_row = foot(stage), stage.text().splitlines()[-1]
        assert "? help q quit" in whole, key
        # Each place is always in the same cells; a sign marks the one that is shown.
        assert place_row.replace("▸", " ") == (
            " H sessions  L latency  T timeline  O tools  F findings  E stderr  C peers  Q sql"
        )
        assert re.findall(r"▸\S (\w+)", place_row) == ([word] if word != "traffic" else []), key
        for width in (*widths, 200):
            await stage.pilot.resize_terminal(width, 24)
            told = f"some of {whole!r} in {width} after {key}"
            await stage.until(lambda: fits(foot(stage), whole, width), told)  # noqa: B023 - asked at once
            assert fits(foot(stage), whole, width), told
            if width == 80:
                assert not has_places(stage), key
                assert ". places q quit" in foot(stage), key
                assert key == "enter" or not key or "esc back" in foot(stage), key
        await stage.until(lambda: foot(stage) == whole, f"{whole!r} again after {key}")  # noqa: B023 - asked at once
        await stage.press("question_mark")
        await stage.until(lambda: bool(section(stage)), f"the help after {key}")
        assert section(stage) == word, key
        await stage.press("escape", *(["escape"] if key else ()))
        await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))


async def a_key_shows_the_places_until_the_next_key(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open()
    whole = foot(stage)
    await stage.press("full_stop")
    await stage.until(lambda: has_places(stage))
    place_row = " ".join(stage.text().splitlines()[-1].split())
    assert place_row == "H sessions L latency T timeline O tools F findings E stderr C peers Q sql"
    before = stage.text().splitlines()[:-1]
    await stage.press("full_stop")
    await stage.until(lambda: stage.text().splitlines() == [*before, whole])
    await stage.press("full_stop", "down")
    await stage.until(lambda: foot(stage) == whole)
    await stage.press("full_stop", "O")
    await stage.see("sessions › library › tools", ". places")
    # In a narrow terminal, the places take as many rows as they need.
    await stage.resize((40, 12))
    await stage.press("full_stop")
    await stage.until(lambda: re.search(r"H sessions.*\n.*Q sql$", stage.text(), re.DOTALL))
    await stage.press("H")
    await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))
    # Where all are shown, the key does nothing.
    await stage.resize((100, 20))
    await stage.until(lambda: has_places(stage))
    shown = stage.text()
    await stage.press("full_stop")
    await stage.settled()
    assert stage.text() == shown
    await stage.resize((100, 19))
    await stage.until(lambda: not has_places(stage))


async def a_place_is_dimmed_where_no_key_leads_to_it(stage: Stage) -> None:
    await stage.listed()
    await stage.resize((100, 30))
    await stage.press("Q")
    await stage.until(lambda: isinstance(stage.app.screen, SqlScreen))
    foot_widget = stage.app.screen.query_one(Foot)
    await stage.press("tab")
    await stage.until(lambda: any(place.is_here for place in foot_widget.places))
    assert {place.description: place.is_disabled for place in foot_widget.places} == {
        "sessions": False, **{entry.word: entry.word != "sql" for entry in places()},
    }  # fmt: skip
    # A click on a dimmed place, or on this one, does nothing; on another, it leads there.
    for word in ("latency", "sql", "sessions"):
        column = stage.text().splitlines()[-1].index(word)
        await stage.pilot.click(Foot, offset=(column, 1))
        await stage.settled()
        assert isinstance(stage.app.screen, SessionsScreen if word == "sessions" else SqlScreen), word


async def one_key_leads_back_to_the_sessions(stage: Stage) -> None:
    await stage.open()
    await stage.press("O", "c")
    await stage.see("latency", "name:search")
    await stage.press("F", "H")
    await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))
    assert len([screen for screen in stage.app.screen_stack if isinstance(screen, SessionsScreen)]) == 1
    await stage.press("H")
    assert isinstance(stage.app.screen, SessionsScreen)


async def the_palette_has_what_a_screen_does_with_its_key(stage: Stage) -> None:
    await stage.open()
    await stage.press("ctrl+p")
    await stage.see("Errors", "what failed or waits")
    await stage.press(*"exchanges")
    assert re.search(r"Exchanges +x +one row for each exchange", stage.text())
    # The name of the command is next to its key, and there are no headings among the best matches.
    assert re.search(r"│Exchanges {12}x {6}one row", stage.text())
    await stage.press("enter")
    await stage.see(" outcome ")
    # Headings are no commands; a key itself comes first.
    await stage.press("ctrl+p")
    await stage.see("this screen")
    await stage.press("F", "enter")
    await stage.see("findings", "records checked")
    await stage.press("escape")
    await stage.press("ctrl+p", *"LATENCY kind")
    assert re.search(r"Latency +L +latency of each kind", stage.text())
    await stage.press(*" zz")
    await stage.see("nothing matches")
    await stage.press("enter", "escape")
    await stage.see(" outcome ")
    # Arrows choose; a click runs a command.
    await stage.press("ctrl+p", *"theme", "down", "up", "pagedown", "pageup")
    await stage.see("Light theme", "Dark theme")
    row = next(line for line, text in enumerate(stage.text().splitlines()) if "Light theme" in text)
    await stage.pilot.click(offset=(10, row))
    await stage.until(lambda: stage.app.theme == "mcpproxy-light")
    stage.app.theme = "mcpproxy-dark"


async def no_two_commands_of_the_palette_read_the_same(stage: Stage) -> None:
    await stage.listed()
    for keys in (("H",), ("enter",), ("enter",), *((entry.key,) for entry in places() if entry.key != "Q")):
        await stage.press(*keys)
        await stage.settled()
        commands = stage.app.palette_commands(stage.app.screen)
        names = [command.name for command in commands]
        assert len(set(names)) == len(names), keys
        assert len({(command.name.casefold(), command.what) for command in commands}) == len(names)
        assert [name for name in names if ": " in name and not name.startswith("View: ")] == [], keys
        assert {"Latency", "Sessions", "Help", "Quit"} <= set(names)
        texts = [command.what for command in commands if not command.name.startswith(("Versions", "Pan", "Zoom"))]
        assert "" not in texts, keys
        assert sorted(set(texts)) == sorted(texts), keys


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
    assert f"{foot(stage)} {stage.text().splitlines()[-1]}".split() == " ".join(before).split()
    drawn = []
    for rows in (line._rows, line._rows[1:]):
        line._rows = rows
        line._renew()
        drawn.append(line._repaint_required)
    assert drawn == [False, True]
    assert line.texts == before
    below_mouse = []
    second = line._rows[0][1]
    for selector, place in ((Foot, (second.first_cell, 0)), ("#traffic", (5, 5)), (Foot, (second.first_cell, 0))):
        await stage.pilot.hover(selector, offset=place)
        await stage.drawn()
        below_mouse.append(line._hovered_key)
    assert below_mouse == [second.key, None, second.key]
    pointed, other = (line.render_line(0).crop(x, x + 1)._segments[0].style for x in (second.first_cell, 1))
    assert pointed is not None
    assert other is not None
    assert pointed.bgcolor != other.bgcolor
    await stage.press("enter")
    await stage.until(lambda: "⏎ open" not in foot(stage))
    assert f"{foot(stage)} {stage.text().splitlines()[-1]}".split() == " ".join(line.texts).split()
    await stage.press("escape")
    await stage.see("⏎ open", "T timeline")
    assert line.texts == before


async def the_keys_that_traffic_needs_most_fit_into_80_columns(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open()
    assert re.findall(r"\S+ (\w+)", foot(stage))[:5] == ["open", "errors", "sort", "answer", "filter"]
    assert re.findall(r"\S+ (\w+)", foot(stage))[-4:] == ["help", "places", "quit", "back"]


@pytest.mark.parametrize("size", sizes((40, 60), soak=[(80, 70), (140, 70)]))
def test_keys_are_those_of_the_user_and_help_is_to_be_read_to_the_end(tmp_path: Path, size: tuple[int, int]) -> None:
    times = 'times = ["ctrl+alt+shift+f11", "ctrl+alt+shift+f12"]'
    write(f'[keys]\npair = "P"\nmark = ["ctrl+n", "*"]\nquit = "Q"\nfly = "f"\n{times}\n')

    async def act(stage: Stage) -> None:
        await stage.see("recorded", "there is no action fly")
        stage.app.clear_notifications()
        await stage.settled()
        # The action that had the key before has none on that screen, and shows none.
        assert "Q quit" in stage.text()
        assert "Q sql" not in stage.text()
        assert stage.text().rstrip().endswith("C peers  sql")
        await stage.open()
        await stage.press("down", "p")
        assert stage.traffic.entry == 2
        await stage.press("P")
        assert stage.traffic.entry == 1
        await stage.press("asterisk")
        await stage.see("◆ +0.001")
        await stage.press("ctrl+n")
        await stage.until(lambda: "◆" not in stage.text())
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, HelpScreen)
        await stage.see("to the answer, and back", "your keys, from keys.toml", "Ctrl+N,*")
        await stage.press("/", *"quit")
        await stage.see("  Q  quit; sessions go on")
        await stage.press("escape")
        await stage.press("escape")
        await stage.resize(size)
        await stage.press("question_mark")
        read: list[str] = []
        for _ in range(6):
            inside = [line.partition("│")[2].rpartition("│")[0] for line in stage.text().splitlines()]
            assert [line for line in inside if "…" in line] == []
            read += " ".join(inside).split()
            await stage.press("pagedown")
        # The last words of the longest texts are shown, so no text is cut.
        assert {"died", "themes", "message", "findings"} <= set(read)
        await stage.press("escape", "Q")
        assert SqlScreen not in map(type, stage.app.screen_stack)
        await stage.until(lambda: stage.app._exit)

    play(act, captured(tmp_path), size=(100, 60))


def section(stage: Stage) -> str:
    """The first heading of the help page; empty while the page is not shown."""
    lines = [line.strip("│ ") for line in stage.text().splitlines()]
    return re.split(r"  +", lines[2])[0] if lines[1].startswith("help: ") else ""


async def help_finds_the_rows_with_all_words(stage: Stage) -> None:
    await stage.open()
    await stage.press("question_mark")
    assert re.search(r"Esc back +1–\d+ of \d+ ", stage.text())
    await stage.press("G")
    last = re.search(r"–(\d+) of (\d+)  │", stage.text())
    assert last is not None
    assert last[1] == last[2]
    await stage.press("/", *"FRAME number")
    await stage.see("help: traffic  find: FRAME number (2)", "go to a frame by number", "frame:30..40")
    assert "sessions" not in stage.text()
    # The keys that close the page are text in the box; Enter keeps what was found, and Esc shows everything again.
    await stage.press(*"q?")
    await stage.see("nothing matches")
    await stage.press("backspace", "backspace", "enter", "escape")
    await stage.see("help: traffic  / find", "traffic: detail", "filter language")
    await stage.press("/", *"slow", "escape")
    await stage.see("filter language")
    await stage.press("q")
    await stage.until(lambda: HelpScreen not in map(type, stage.app.screen_stack))


async def help_has_as_many_columns_as_fit(stage: Stage) -> None:
    await stage.open()
    await stage.press("question_mark")
    for size, headings in (
        ((80, 24), ["traffic"]),
        ((100, 30), ["traffic", "traffic: detail"]),
        ((160, 50), ["traffic", "traffic: detail", "filter language"]),
    ):
        await stage.resize(size)
        await stage.settled()
        assert re.split(r"  +", stage.text().splitlines()[2].strip("│ ▆▂▁█▄▅▃▇")) == headings, size
    assert [line for key in KEYS.values() for line in (key.example,) if line not in stage.text()] == []
    await stage.squeezed()


@pytest.mark.costly("the keys and the help of nine screens, in three widths")
def test_the_line_of_keys_and_the_help(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        each_screen_shows_its_keys_whole_and_help_begins_with_them,
        the_keys_that_traffic_needs_most_fit_into_80_columns,
        keys_are_drawn_anew_only_when_they_change,
        a_key_shows_the_places_until_the_next_key,
        a_place_is_dimmed_where_no_key_leads_to_it,
        one_key_leads_back_to_the_sessions,
        help_finds_the_rows_with_all_words,
        help_has_as_many_columns_as_fit,
        the_palette_has_what_a_screen_does_with_its_key,
        no_two_commands_of_the_palette_read_the_same,
    )
    play_each(acts, captured(tmp_path))
