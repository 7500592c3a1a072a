"""Every key of every screen does what its page says, on captures at rest and live, large, broken and hostile."""

from pathlib import Path
from threading import Event

import pytest

from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.cli.selection import all_captures
from mcpproxy.clients.overview import RoutedServer
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.tui.http_talk import two_revisions
from tests.mcpproxy.tui.stage import (
    CALL,
    FINE,
    Stage,
    captured,
    conversation,
    frame_record,
    lossy,
    play,
    play_each,
    sizes,
)


class TestSessions:
    """The list of sessions."""

    def test_from_an_empty_list_to_the_first_capture_however_long_the_search_for_it_took(self, tmp_path: Path) -> None:
        """The empty list is drawn and then hidden, and Textual takes the focus away from a widget that it hides."""
        searches = Event()

        def find() -> list[Path]:
            searches.wait(DEADLINE_S)
            return sorted((tmp_path / "found").rglob("*.mcpcap"))

        async def act(stage: Stage) -> None:
            await stage.see("0 recorded")
            searches.set()
            await stage.see("Nothing recorded yet", "    mcpproxy run --", "routed, no traffic yet: library (Cursor)")
            await stage.settled()
            await stage.press("enter", "s", "down", "d")
            await stage.see("nothing is selected")
            captured(tmp_path / "found")
            await stage.see("1 recorded", "open", "library")
            assert "Nothing recorded" not in stage.text()
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, find=find, routed=lambda: [RoutedServer("Cursor", "library")])

    def test_what_cannot_be_read_and_what_is_being_recorded_are_rows_like_any_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = tmp_path / "all"
        monkeypatch.setenv("MCPPROXY_CAPTURES", str(place))
        captured(place)
        (place / "loop.mcpcap").symlink_to("loop.mcpcap")
        (place / "none").mkdir()
        (place / "none/broken.mcpcap").write_bytes(b"nothing of ours")
        living, late = CaptureFile(place / "live.mcpcap"), CaptureFile(place / "late.mcpcap")
        for line in lines(conversation(2, "living")):
            living.append(line)

        async def act(stage: Stage) -> None:
            await stage.listed()
            screen = stage.app.screen
            assert isinstance(screen, SessionsScreen)
            await stage.see("● living", "▲ none", "cannot be read", "○ library", "Cursor 2.1")
            assert "living" in stage.text().splitlines()[2] + stage.text().splitlines()[3], "live ones come first"
            for name, reason in (("loop", "symbolic"), ("broken", "broken.mcpcap")):
                screen.table.go([capture.path.stem for capture in screen.captures].index(name))
                await stage.press("enter")
                await stage.see("cannot read", reason)
                assert isinstance(stage.app.screen, SessionsScreen), name
            living.append(seal(50, 10**9, "frame", frame_record("c2s", CALL % (50, 1))[1]))
            await stage.see("      9 ")
            # This capture gets its first line only now.
            for line in lines(conversation(2, "late")):
                late.append(line)
            await stage.see("● late")

        play(act, find=all_captures, size=(110, 30))
        living.close()
        late.close()

    def test_it_is_sorted_and_filtered_and_the_cursor_stays_where_it_is_put_while_captures_come(
        self, tmp_path: Path
    ) -> None:
        paths = [captured(tmp_path, name, calls) for name, calls in (("beta", 2), ("alpha", 9), ("gamma", 4))]
        routed = [RoutedServer("Cursor", "alpha"), RoutedServer("Claude Code", "weather\x1b[2J")]

        async def act(stage: Stage) -> None:
            def servers() -> list[str]:
                return [line.split()[1] for line in stage.text().splitlines() if line.startswith("○")]

            screen, known = stage.app.screen, stage.app.capture_list
            assert isinstance(screen, SessionsScreen)
            await stage.until(lambda: all(capture.has_full_summary for capture in known.captures) and servers())
            await stage.see("0 live · 3 recorded", "routed, no traffic yet: weather\\x1b[2J (Claude Code)")
            assert "alpha (Cursor)" not in stage.text()
            assert servers() == ["beta", "alpha", "gamma"]
            await stage.press("s")
            assert servers() == ["alpha", "beta", "gamma"], "by server"
            await stage.press("s")
            assert servers() == ["alpha", "gamma", "beta"], "by frames"
            await stage.press(*"sss")
            assert servers() == ["beta", "alpha", "gamma"], "the newest first again"
            await stage.press("slash", *"MA 2025")
            await stage.until(lambda: servers() == ["gamma"])
            await stage.press("enter")
            await stage.see("filter: MA 2025 (1)")
            await stage.press("escape")
            await stage.until(lambda: len(servers()) == 3)
            # What a server calls itself is not shown, so it is not searched either.
            await stage.press("slash", *"0.6", "enter")
            await stage.see("no session has these words; Esc shows all")
            await stage.press("question_mark")
            await stage.see("words of its filter", "sessions with both words")
            await stage.press("escape", "escape")
            await stage.until(lambda: len(servers()) == 3 and "no session has" not in stage.text())
            # A filtered list grows as captures come and are read; the cursor stays at the top until it is moved.
            await stage.press("slash", *"cursor", "enter")
            await stage.see("filter: cursor (3)")
            paths.insert(0, captured(tmp_path, "later", stamp="20261122T101500Z-0000"))
            await stage.see("filter: cursor (4)", "later")
            assert screen.selected is screen.capture_list.captures[0]
            await stage.press("escape", "down")
            held = screen.selected
            paths.insert(0, captured(tmp_path, "last", stamp="20261122T101500Z-0001"))
            await stage.see("5 recorded", "last")
            assert screen.selected is held
            # The title counts the rows; otherwise a key that should open a capture would do nothing.
            found, known.captures = known.captures, []
            screen.show_title()
            known.captures = found
            await stage.drawn()
            assert "5 recorded" in stage.text()

        play(act, find=lambda: list(paths), routed=lambda: routed)


async def from_row_to_row_in_frames_and_in_exchanges(stage: Stage) -> None:
    await stage.open()
    traffic = stage.traffic
    await stage.press("p")
    assert traffic.entry == 2, "the response"
    await stage.press("p")
    assert traffic.entry == 1, "its request"
    await stage.press("down", "down", "p")
    assert traffic.entry == 3
    await stage.see("no request or response to go to")
    await stage.press("g")
    seen = []
    for _ in range(3):
        await stage.press("n")
        seen.append(traffic.entry)
    assert seen == [9, 15, 17], "what is wrong"
    await stage.press("p")
    await stage.see("never answered")
    await stage.press("n")
    await stage.see("no error below")
    await stage.press("N", "N")
    assert traffic.entry == 9
    # Show one line per exchange.
    await stage.press("x")
    assert len(traffic.table.rows) == 8
    assert traffic.entry == 8
    await stage.see("outcome", "error -32602", "unanswered")
    await stage.press("p")
    assert traffic.entry == 9, "the response, among frames"
    await stage.press("x", "x")
    assert len(traffic.table.rows) == 18
    # From a frame without an exchange, the cursor goes to the exchange before it.
    await stage.press("G", "up", "up")
    assert traffic.entry == 16
    await stage.press("x")
    assert traffic.entry == 14
    await stage.press("g")
    for key, entry in (("n", 8), ("n", 14), ("n", 17), ("N", 14), ("N", 8), ("N", 8)):
        await stage.press(key)
        assert traffic.entry == entry, f"{key}: what is wrong among exchanges"
    await stage.press("x")
    await stage.see("+0.009", " time ")
    await stage.press("t")
    await stage.until(lambda: "+0.009" not in stage.text())
    await stage.see(" delta ")
    await stage.press("t")
    await stage.until(lambda: "+0.001" not in stage.text())
    await stage.see(" clock ")
    await stage.press("x")
    await stage.see(" clock ")
    await stage.press("x", "t")
    await stage.see("+0.009", " time ")


async def filter_selects_points_at_mistakes_and_remembers(stage: Stage) -> None:
    await stage.open()
    await stage.press("G")
    assert "following" not in stage.text(), "only what is live is followed"
    await stage.press(*["up"] * 4)
    assert stage.traffic.entry == 14
    await stage.press("slash", *"code:x")
    await stage.see("expected an error code")
    lines_before = [line.strip() for line in stage.text().splitlines()]
    assert "^" not in lines_before, "an unfinished expression is not held against the user"
    await stage.press("enter")
    await stage.until(lambda: "^" in [line.strip() for line in stage.text().splitlines()])
    assert stage.traffic.query_one(FilterBox).has_focus
    await stage.press(*["backspace"] * 6, *"has:error", "enter")
    await stage.see("has:error", "2 of 16 frames")
    assert [stage.traffic.listing.rows.entry(row) for row in range(2)] == [9, 15]
    await stage.until(lambda: stage.traffic.entry == 15, "the cursor to stay near")
    assert "following" not in stage.text()
    await stage.press("escape")
    await stage.see("initialize")
    # A filter that was dropped no longer applies.
    await stage.press("g", *["n"] * 3)
    assert stage.traffic.entry == 17
    await stage.press("n")
    await stage.see("no error below")
    await stage.press("slash")
    assert not stage.traffic.query_one(FilterBox).value
    await stage.press(*"id:4", "enter")
    await stage.see("2 of 16 frames")
    await stage.press("slash", "up", "up")
    assert stage.traffic.query_one(FilterBox).value == "has:error"
    await stage.press("down", "escape")
    assert stage.traffic.table.has_focus
    await stage.press("slash", "ctrl+u", *"rule:x", "enter")
    await stage.see("0 of 16 frames", "nothing matches rule:x; Esc shows 18 rows")
    await stage.press("slash", "ctrl+u", *"FOUND", "enter")
    await stage.see("nothing matches FOUND; case matters; Esc shows 18 rows")
    await stage.press("slash", "ctrl+u", *"kind:request not has:answer", "enter")
    await stage.see("1 of 16 frames", "unanswered")
    await stage.press("slash", "ctrl+u", "enter")
    await stage.see("initialize")


async def detail_in_its_views_and_help(stage: Stage) -> None:
    await stage.open()
    await stage.press("down", "down", "down", "enter")
    await stage.see("tools/call search", "n: 1", "1 text", "5 headers")
    await stage.press("2")
    await stage.see('"method": "tools/call"', '▾ "params"')
    await stage.press("down", "down", "down", "down", "left")
    await stage.see('▸ "params": { name, arguments }')
    await stage.press("right")
    await stage.see('▾ "params"')
    await stage.press("enter")
    await stage.see('▸ "params"')
    await stage.press("3")
    await stage.see('{"jsonrpc":"2.0","id":1,"method":"tools/call"')
    await stage.press("4")
    await stage.see("00000000  7b 22 6a", '{"jsonrp')
    await stage.press("5")
    await stage.see("no headers")
    await stage.press("6")
    await stage.see("n: 1", "1.0 ms ok", "found 1", "client    Cursor")
    await stage.press("tab")
    assert stage.traffic.table.has_focus
    await stage.press("down")
    await stage.see("frame 5")
    await stage.press("tab", "h", "escape")
    assert stage.traffic.table.has_focus
    assert not stage.traffic.query_one("#below").display
    # Another screen can lead to an entry.
    await stage.press("question_mark")
    stage.app.show(9)
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 9
    await stage.press("escape", "escape", "escape")
    assert isinstance(stage.app.screen, SessionsScreen)
    await stage.press("question_mark")
    await stage.see("help: sessions", "delete, after confirmation")
    await stage.press("question_mark")
    assert HelpScreen not in map(type, stage.app.screen_stack)
    await stage.press("question_mark", "escape")
    assert HelpScreen not in map(type, stage.app.screen_stack)


class TestTraffic:
    """The messages of one capture."""

    def test_the_title_says_the_revision_of_the_session_at_the_cursor(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.see("2025-06 +1")
            await stage.press("enter", "G")
            await stage.see("Later 2.1 → library 0.6 · 2025-06-18, 2025-11-25")
            await stage.press("up")
            await stage.see("session 2", "Later 2.1 → library 0.6 · 2025-11-25")
            await stage.press("g", "down")
            await stage.see("session 1", "Cursor 2.1 → library 0.6 · 2025-06-18")
            await stage.press("C")
            await stage.see("2025-06-18, 2025-11-25 in use")

        play(act, two_revisions(tmp_path), size=(140, 40))

    @pytest.mark.costly("every key of the traffic, with what its filters and views show")
    def test_the_keys(self, tmp_path: Path) -> None:
        acts = (
            from_row_to_row_in_frames_and_in_exchanges,
            filter_selects_points_at_mistakes_and_remembers,
            detail_in_its_views_and_help,
        )
        play_each(acts, captured(tmp_path))

    def test_moving_with_keys_and_with_the_mouse(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            table = stage.traffic.table
            last = len(table.rows) - 1
            assert table.cursor == 0
            for keys, row in (
                (("down",), 1), (("j",), 2), (("k",), 1), (("up", "up"), 0), (("G",), last), (("g",), 0),
                (("end",), last),
                (("home",), 0), (("pagedown",), table.page_rows), (("pageup",), 0), (("space",), table.page_rows),
                (("ctrl+u",), 0), (("ctrl+d",), table.page_rows), (("ctrl+b",), 0),
            ):  # fmt: skip
                await stage.press(*keys)
                assert table.cursor == row, keys
            stage.text()  # a click is on what has been drawn
            await stage.pilot.click("#traffic", offset=(20, 4))
            assert table.cursor == 3
            await stage.pilot.click("#traffic", offset=(20, 4), times=2)
            await stage.see("1 text")
            # The wheel leaves the cursor where it is, even out of sight, until a key moves it.
            table.scroll_to(y=10, animate=False, immediate=True)
            await stage.drawn()
            assert (table.cursor, table.scroll_y) == (3, 10)
            table.focus()
            await stage.press("down")
            assert (table.cursor, table.scroll_y) == (4, 4)

        play(act, captured(tmp_path, calls=60), size=(80, 24))

    def test_what_is_live_is_followed_until_the_user_looks_away_or_nothing_more_comes(self, tmp_path: Path) -> None:
        """A capture named on the command line opens at once; the other screens also say when nothing more comes."""
        live = {name: CaptureFile(tmp_path / f"{name}.mcpcap") for name in ("x", "L", "E")}
        known = lines(conversation(40))
        for made in live.values():
            for line in known:
                made.append(line)
        count = len(known)

        def more(n: int) -> None:
            nonlocal count
            live["x"].append(seal(count, count * 10**6, "frame", frame_record("c2s", CALL % (n, n))[1]))
            live["x"].append(seal(count + 1, (count + 5) * 10**6, "frame", frame_record("s2c", FINE % (n, n))[1]))
            count += 2

        async def act(stage: Stage) -> None:
            await stage.see("● following", "waiting")
            more(500)
            await stage.see("found 500", "5.0ms")
            await stage.press("up")
            more(501)
            await stage.until(lambda: stage.traffic.reading.interpreted_count == count)
            assert "found 501" not in stage.text()
            assert "following" not in stage.text()
            await stage.press("f")
            await stage.see("found 501", "● following")
            await stage.press("f", "g")
            await stage.press("G")
            more(502)
            await stage.see("found 502", "● following")
            # While the user reads a message, the list does not follow.
            await stage.press("enter")
            await stage.until(lambda: not stage.traffic.table.following)
            assert "● following" not in stage.text()
            await stage.press("escape", "f")
            await stage.see("● following")
            live.pop("x").close()
            await stage.until(lambda: stage.traffic.reading.has_ended)
            await stage.until(lambda: "●" not in stage.text(), "the traffic to say that it has ended")
            await stage.back()
            await stage.see("1 recorded")
            for name in ("L", "E"):
                screen = stage.app.screen
                assert isinstance(screen, SessionsScreen)
                screen.table.go([capture.path.stem for capture in screen.captures].index(name))
                await stage.press("enter")
                await stage.see("● following")
                await stage.press(name)
                await stage.see("●")
                await stage.settled()
                live.pop(name).close()
                await stage.until(lambda: "●" not in stage.text(), f"{name} to say that it has ended")
                await stage.back()

        paths = [tmp_path / f"{name}.mcpcap" for name in live]
        try:
            play(act, *paths, first=paths[0])
        finally:
            for made in live.values():
                made.close()


class TestEverywhere:
    """What is true of all screens."""

    def test_the_palette_survives_any_height_and_q_quits(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.listed()
            for rows in (1, 3, 4, 5, 8):
                await stage.pilot.resize_terminal(80, rows)
                await stage.press("ctrl+p", "pagedown", "pageup", "down", "pagedown", "end", "pageup", "up", "z", "z")
                await stage.press("pagedown", "pageup", "home", "escape", "escape")
                await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen), f"the list in {rows} rows")
            await stage.press("q")
            assert stage.app._exit

        play(act, captured(tmp_path), size=(80, 1))

    def test_in_a_tiny_terminal_the_rows_come_before_the_lines_about_losses_and_ctrl_c_quits(
        self, tmp_path: Path
    ) -> None:
        path = lossy(tmp_path / "x" / "x.mcpcap", conversation(1), 10)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("g")
            await stage.see("→  initialize")
            assert "lost" not in stage.text()
            await stage.pilot.resize_terminal(40, 12)
            await stage.see("10 records lost", "initialize")
            await stage.press("ctrl+c")
            assert stage.app._exit

        play(act, path, size=(20, 5))

    @pytest.mark.costly("every key of the traffic, and SQL and all prompts in a second size, too")
    @pytest.mark.parametrize("size", sizes((1, 1), soak=[(20, 10), (2, 3), (10, 4), (40, 12), (80, 24), (300, 100)]))
    def test_any_size_survives_every_key(self, tmp_path: Path, size: tuple[int, int]) -> None:
        async def pressed(stage: Stage, *keys: str) -> None:
            for key in keys:
                await stage.press(key)
                stage.text()  # draws it

        async def act(stage: Stage) -> None:
            await stage.open()
            await pressed(
                stage, "down", "enter", "2", "3", "4", "6", "slash", "a", "escape", "tab", "G", "x", "x", "p", "n"
            )
            await pressed(stage, "slash", "a", "enter", "t")
            await stage.pilot.resize_terminal(60, 20)
            await stage.pilot.resize_terminal(*size)
            await pressed(stage, "question_mark", "escape", "escape", "escape", "escape")
            await stage.back()
            for other in (size, (3, 3)):
                await stage.resize(other)
                await all_that_is_asked_for(stage)
                await stage.back()

        async def all_that_is_asked_for(stage: Stage) -> None:
            await pressed(stage, "Q", "ctrl+u", *"from latency", "ctrl+j", "enter")
            await stage.until(lambda: stage.app.sql.result is not None)
            await pressed(stage, "right", "enter", "escape", "escape", "escape", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await pressed(stage, "M", "x", "escape", "c")
            await stage.until(lambda: isinstance(stage.app.screen, ChoiceScreen))
            await pressed(stage, "escape", "e", "escape", "question_mark", "escape", "slash", "m", "tab", "escape")

        play(act, captured(tmp_path), size=size)
