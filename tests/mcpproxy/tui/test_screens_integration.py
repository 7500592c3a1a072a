"""Every key of every screen does what its page says, on captures at rest and live, large, broken and hostile."""

from pathlib import Path
from threading import Event

import pytest

from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.cli.selection import all_captures
from mcpproxy.clients.overview import RoutedServer
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header, in_pieces, lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.tui.http_talk import two_revisions
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    Stage,
    captured,
    conversation,
    lossy,
    play,
    play_each,
    record,
    said,
    sizes,
)


class TestSessions:
    """The list."""

    def test_nothing_recorded_says_what_to_do(self) -> None:
        async def act(stage: Stage) -> None:
            await stage.see("Nothing recorded yet", "    mcpproxy run --")
            await stage.press("enter", "s", "down")

        play(act)

    def test_title_counts_the_captures_that_the_rows_show(self, tmp_path: Path) -> None:
        """Else it counts a capture that is not there yet, and a key that should open it does nothing."""

        async def act(stage: Stage) -> None:
            await stage.settled()
            screen, known = stage.app.screen, stage.app.capture_list
            assert isinstance(screen, SessionsScreen)
            found, known.captures = known.captures, []
            screen.show_title()
            known.captures = found
            await stage.drawn()
            assert "1 recorded" in stage.text()

        play(act, captured(tmp_path))

    def test_summaries_fill_in_and_are_kept(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.see("○", "library", "Cursor 2.1", "2025-06-18", "0 live · 1 recorded", "1.0ms", "█")
            assert " 16 " in stage.text()

        play(act, path)
        assert len(list((tmp_path / "cache/mcpproxy/summaries").glob("*.json"))) == 1
        play(act, path)

    def test_marks_tell_live_dead_lossy_and_unreadable(self, tmp_path: Path) -> None:
        living = CaptureFile(tmp_path / "live.mcpcap")
        for line in lines(conversation(2, "living")):
            living.append(line)
        dead = record(tmp_path / "dead.mcpcap", conversation(1, "killed"))
        crash = ("close", members(ending="server", status=1, totals={}))
        failed = record(tmp_path / "failed.mcpcap", [*conversation(1, "failing"), crash])
        losing = lossy(tmp_path / "lossy.mcpcap", conversation(1, "losing"), 7)
        broken = tmp_path / "none" / "broken.mcpcap"
        broken.parent.mkdir()
        broken.write_bytes(b"nothing of ours")

        async def act(stage: Stage) -> None:
            await stage.see(
                "● living", "✝ killed", " killed ", "✝ failing", "exit 1", "▲ losing", "▲ none", "cannot be read"
            )
            assert stage.text().splitlines()[2].startswith("● living")
            await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen) and stage.app.screen.selected)
            await stage.press("g", "down", "enter")
            await stage.see("cannot read")
            living.append(seal(50, 10**9, "frame", said("c2s", CALL % (50, 1))[1]))
            await stage.see("      9 ")

        play(act, dead, failed, losing, tmp_path / "live.mcpcap", broken, size=(110, 30))
        living.close()

    def test_filter_sort_and_order(self, tmp_path: Path) -> None:
        paths = [captured(tmp_path, name, calls) for name, calls in (("beta", 2), ("alpha", 9), ("gamma", 4))]

        async def act(stage: Stage) -> None:
            def servers() -> list[str]:
                return [line.split()[1] for line in stage.text().splitlines() if line.startswith("○")]

            known = stage.app.capture_list
            await stage.until(lambda: all(capture.is_summed for capture in known.captures) and servers())
            assert servers() == ["beta", "alpha", "gamma"]
            await stage.press("s")
            assert servers() == ["alpha", "beta", "gamma"]
            await stage.press("s")
            assert servers() == ["alpha", "gamma", "beta"]
            await stage.press("slash", *"MA 2025")
            await stage.until(lambda: servers() == ["gamma"])
            await stage.press("enter")
            await stage.see("filter: MA 2025 (1)")
            await stage.press("escape")
            await stage.until(lambda: len(servers()) == 3)

        play(act, *paths)

    def test_new_captures_come_by_themselves(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.see("Nothing recorded yet")
            captured(tmp_path / "found")
            await stage.see("library", "1 recorded")
            assert "Nothing" not in stage.text()

        play(act, find=lambda: sorted((tmp_path / "found").rglob("*.mcpcap")))

    def test_the_first_capture_can_be_opened_however_long_the_search_for_it_took(self, tmp_path: Path) -> None:
        """The empty list was drawn, and is then hidden: Textual takes the focus away from what it hides."""
        searches = Event()

        def find() -> list[Path]:
            searches.wait(DEADLINE_S)
            return sorted((tmp_path / "found").rglob("*.mcpcap"))

        async def act(stage: Stage) -> None:
            await stage.see("0 recorded")
            searches.set()
            await stage.see("Nothing recorded yet")
            await stage.settled()
            captured(tmp_path / "found")
            await stage.see("1 recorded", "open")
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, find=find)

    def test_the_cursor_stays_on_top_until_it_is_moved(self, tmp_path: Path) -> None:
        found = tmp_path / "found"
        captured(found, "first", stamp="20261121T101502Z-0001")

        async def act(stage: Stage) -> None:
            screen = stage.app.screen
            assert isinstance(screen, SessionsScreen)
            await stage.see("1 recorded", "first")
            captured(found, "second", stamp="20261121T101502Z-0002")
            await stage.see("2 recorded", "second")
            assert screen.selected is screen.capture_list.captures[0]
            await stage.press("down")
            held = screen.selected
            captured(found, "third", stamp="20261121T101502Z-0003")
            await stage.see("3 recorded", "third")
            assert screen.selected is held

        play(act, find=lambda: sorted(found.rglob("*.mcpcap"), reverse=True))

    def test_a_link_that_leads_in_a_circle_is_a_row_like_any_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MCPPROXY_CAPTURES", str(tmp_path / "all"))
        captured(tmp_path / "all")
        (tmp_path / "all/loop.mcpcap").symlink_to("loop.mcpcap")

        async def act(stage: Stage) -> None:
            await stage.see("2 recorded", "cannot be read", "Cursor 2.1")
            await stage.press("G", "enter")
            await stage.see("cannot read", "symbolic")

        play(act, find=all_captures)

    def test_a_capture_without_its_first_line_is_looked_at_again(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / "live.mcpcap")

        async def act(stage: Stage) -> None:
            await stage.see("1 recorded" if not stage.app.capture_list.captures else "live")
            for line in lines(conversation(2, "late")):
                made.append(line)
            await stage.see("● late", "Cursor 2.1")

        play(act, tmp_path / "live.mcpcap")
        made.close()


def test_routed_servers_without_a_capture_are_named(tmp_path: Path) -> None:
    routed = [RoutedServer("Cursor", "library"), RoutedServer("Claude Code", "weather\x1b[2J")]

    async def act(stage: Stage) -> None:
        await stage.see("1 recorded", "routed, no traffic yet: weather\\x1b[2J (Claude Code)")
        assert "library (Cursor)" not in stage.text()

    play(act, captured(tmp_path), size=(80, 24), routed=lambda: routed)
    play(lambda stage: stage.see("routed, no traffic yet: library (Cursor)"), routed=lambda: routed[:1])


class TestShelf:
    """What is known of each capture, while the list is drawn."""

    def test_a_filter_fills_as_summaries_arrive(self, tmp_path: Path) -> None:
        paths = [captured(tmp_path, "library")]

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("slash", *"cursor")
            await stage.see("filter: cursor (1)")
            paths.insert(0, captured(tmp_path, "later", stamp="20261122T101500Z-0000"))
            await stage.see("filter: cursor (2)", "later")

        play(act, find=lambda: list(paths))


def begun(path: Path) -> CaptureFile:
    """A capture that is being recorded."""
    made = CaptureFile(path)
    made.append(b"".join(lines(conversation(3))))
    return made


async def pair_jumps_there_and_back(stage: Stage) -> None:
    await stage.open()
    await stage.press("p")
    assert stage.traffic.entry == 2
    await stage.press("p")
    assert stage.traffic.entry == 1
    await stage.press("down", "down", "p")
    assert stage.traffic.entry == 3
    await stage.see("no request or response to go to")


async def errors_are_found_without_a_filter(stage: Stage) -> None:
    await stage.open()
    seen = []
    for _ in range(3):
        await stage.press("n")
        seen.append(stage.traffic.entry)
    assert seen == [9, 15, 17]
    await stage.press("n")
    await stage.see("no error below")
    await stage.press("N", "N")
    assert stage.traffic.entry == 9


async def a_filter_stays_where_one_was_and_following_is_of_what_is_live(stage: Stage) -> None:
    await stage.open()
    await stage.press("G")
    assert "following" not in stage.text()
    await stage.press(*["up"] * 4)
    assert stage.traffic.entry == 14
    await stage.press("slash", *"has:error", "enter")
    await stage.see("has:error", "2 of 16 frames")
    await stage.until(lambda: stage.traffic.entry == 15)
    assert "following" not in stage.text()


async def filter_selects_points_at_mistakes_and_remembers(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"code:x")
    await stage.see("expected an error code", "^")
    await stage.press("enter")
    assert stage.traffic.query_one(FilterBox).has_focus
    await stage.press(*["backspace"] * 6, *"has:error", "enter")
    await stage.see("has:error", "2 of 16 frames")
    assert [stage.traffic.listing.rows.entry(row) for row in range(2)] == [9, 15]
    await stage.press("escape")
    await stage.see("initialize")
    # A filter that was dropped is not followed any more.
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
    await stage.press("slash", *["backspace"] * 4, *"rule:x", "enter")
    await stage.see("0 of 16 frames", "nothing matches rule:x; Esc shows 18 rows")
    await stage.press("slash", *(["backspace"] * 6), *"FOUND", "enter")
    await stage.see("nothing matches FOUND; case matters; Esc shows 18 rows")
    await stage.press("slash", *["backspace"] * 6, "enter")
    await stage.see("initialize")


async def a_request_is_found_by_what_became_of_it(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"kind:request not has:answer", "enter")
    await stage.see("1 of 16 frames", "unanswered")


async def exchanges_are_a_line_each(stage: Stage) -> None:
    await stage.open()
    await stage.press("n", "x")
    assert len(stage.traffic.table.rows) == 8
    assert stage.traffic.entry == 8
    await stage.see("outcome", "error -32602", "unanswered")
    await stage.press("p")
    assert stage.traffic.entry == 9
    await stage.press("x", "x")
    assert len(stage.traffic.table.rows) == 18


async def what_is_of_no_exchange_leads_to_the_one_before(stage: Stage) -> None:
    await stage.open()
    await stage.press("G", "up", "up")
    assert stage.traffic.entry == 16
    await stage.press("x")
    assert stage.traffic.entry == 14


async def what_is_wrong_is_found_among_exchanges(stage: Stage) -> None:
    await stage.open()
    await stage.press("x", "g", "n")
    assert stage.traffic.entry == 8
    await stage.press("n")
    assert stage.traffic.entry == 14
    await stage.press("n")
    assert stage.traffic.entry == 17
    await stage.press("N", "N")
    assert stage.traffic.entry == 8
    await stage.press("N")
    assert stage.traffic.entry == 8


async def times(stage: Stage) -> None:
    await stage.open()
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


async def detail_in_its_views(stage: Stage) -> None:
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
    await stage.press("escape")
    assert isinstance(stage.app.screen, SessionsScreen)


async def help_lists_the_keys(stage: Stage) -> None:
    await stage.listed()
    await stage.press("question_mark")
    await stage.see("everywhere", "PgUp")
    await stage.press("question_mark")
    assert not isinstance(stage.app.screen, HelpScreen)
    await stage.press("question_mark", "escape")
    assert not isinstance(stage.app.screen, HelpScreen)


async def going_to_an_entry_from_another_screen(stage: Stage) -> None:
    await stage.open()
    await stage.press("question_mark")
    stage.app.show(9)
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 9


class TestTraffic:
    """The messages of one capture."""

    @pytest.mark.costly("every key of the traffic, with what its filters and views show")
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

    def test_the_keys(self, tmp_path: Path) -> None:
        acts = (
            pair_jumps_there_and_back,
            errors_are_found_without_a_filter,
            a_filter_stays_where_one_was_and_following_is_of_what_is_live,
            filter_selects_points_at_mistakes_and_remembers,
            a_request_is_found_by_what_became_of_it,
            exchanges_are_a_line_each,
            what_is_of_no_exchange_leads_to_the_one_before,
            what_is_wrong_is_found_among_exchanges,
            times,
            detail_in_its_views,
            going_to_an_entry_from_another_screen,
            help_lists_the_keys,
        )
        play_each(acts, captured(tmp_path))

    def test_rows_say_what_show_says(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("Cursor 2.1 → library 0.6", "2025-06-18", "tools/call search", "error -32602", "1.0 ms")
            await stage.see("stderr: warning: low on shelves", "unanswered", "■", "server exited 0", "initialize")
            # Wide terminals show the exchange beside the detail.
            await stage.pilot.resize_terminal(140, 40)
            await stage.press("g", "enter")
            await stage.see("initialize", "clientInfo:", "sent", "took")

        play(act, captured(tmp_path), size=(120, 40))

    def test_moving(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            table = stage.traffic.table
            last = len(table.rows) - 1
            assert table.cursor == 0
            for keys, row in (
                (("down",), 1), (("j",), 2), (("k",), 1), (("up", "up"), 0), (("G",), last), (("g",), 0),
                (("end",), last),
                (("home",), 0), (("pagedown",), table.page), (("pageup",), 0), (("space",), table.page),
                (("ctrl+u",), 0), (("ctrl+d",), table.page), (("ctrl+b",), 0),
            ):  # fmt: skip
                await stage.press(*keys)
                assert table.cursor == row, keys

        play(act, captured(tmp_path, calls=60), size=(80, 24))

    def test_a_capture_without_an_end_says_killed(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("✝ killed")

        play(act, record(tmp_path / "a" / "a.mcpcap", conversation()))

    def test_who_reads_a_message_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "x.mcpcap"
        made = begun(path)

        async def act(stage: Stage) -> None:
            await stage.see("● following")
            await stage.press("enter")
            await stage.until(lambda: not stage.traffic.table.following)
            assert "● following" not in stage.text()
            await stage.press("escape", "f")
            await stage.see("● following")

        try:
            play(act, path, first=path)
        finally:
            made.close()

    @pytest.mark.parametrize("screen", ["L", "E", ""])
    def test_a_screen_says_so_when_nothing_more_comes(self, tmp_path: Path, screen: str) -> None:
        path = tmp_path / "x.mcpcap"
        made = begun(path)

        async def act(stage: Stage) -> None:
            await stage.see("● following")
            await stage.press(*screen)
            await stage.see("●")
            await stage.settled()
            made.close()
            await stage.until(lambda: "●" not in stage.text())

        play(act, path, first=path)

    def test_what_is_empty_is_told_beside_the_detail(self, tmp_path: Path) -> None:
        answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
        middles = [("header", header()), said("c2s", CALL % (1, 1)), said("s2c", answer), said("s2c", b""), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("enter")
            await stage.see("outcome   ok with empty content")
            await stage.press("tab", "down", "down")
            await stage.see("no bytes")
            assert "empty content" not in stage.text()

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(140, 30))

    def test_long_frames_come_in_pages(self, tmp_path: Path) -> None:
        raw = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"a" * 1_400_000 + b'END"}}'
        path = record(tmp_path / "x.mcpcap", [("header", header()), *in_pieces("s2c", raw, 1 << 20), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("1.4 MB")
            await stage.press("enter")
            await stage.see("text:", "aaaa")
            await stage.press("3")
            await stage.see("page 1 of 22")
            await stage.press("right_square_bracket")
            await stage.see("page 2 of 22")
            await stage.press(*["right_square_bracket"] * 21)
            await stage.see("page 22 of 22")
            await stage.press("G")
            await stage.see("END")
            await stage.press("left_square_bracket")
            await stage.see("page 21 of 22")

        play(act, path)

    def test_live_sessions_are_followed_until_the_user_looks_away(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / "live.mcpcap")
        known = lines(conversation(40))
        for line in known:
            made.append(line)
        count = len(known)

        def more(n: int) -> None:
            nonlocal count
            made.append(seal(count, count * 10**6, "frame", said("c2s", CALL % (n, n))[1]))
            made.append(seal(count + 1, (count + 5) * 10**6, "frame", said("s2c", FINE % (n, n))[1]))
            count += 2

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter")
            await stage.see("● following", "waiting")
            more(500)
            await stage.see(" 500 ", "5.0 ms")
            await stage.press("up")
            more(501)
            await stage.until(lambda: stage.traffic.reading.understood == count)
            assert " 501 " not in stage.text()
            assert "following" not in stage.text()
            await stage.press("f")
            await stage.see(" 501 ", "● following")
            await stage.press("f", "g")
            await stage.press("G")
            more(502)
            await stage.see(" 502 ", "● following")
            made.close()
            await stage.until(lambda: stage.traffic.reading.has_ended)

        play(act, tmp_path / "live.mcpcap")

    def test_a_capture_that_is_named_opens_at_once(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.see("tools/call search")
            assert isinstance(stage.app.screen, TrafficScreen)
            await stage.press("escape")
            await stage.see("1 recorded")

        play(act, path, first=path)


class TestEverywhere:
    """What holds on all screens."""

    def test_the_palette_survives_any_height(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.listed()
            for rows in (1, 3, 4, 5, 8):
                await stage.pilot.resize_terminal(80, rows)
                await stage.press("ctrl+p", "pagedown", "pageup", "down", "pagedown", "end", "pageup", "up", "z", "z")
                await stage.press("pagedown", "pageup", "home", "escape", "escape")
                await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen), f"the list in {rows} rows")

        play(act, captured(tmp_path), size=(80, 1))

    @pytest.mark.parametrize(("key", "inside"), [("q", False), ("ctrl+c", True)])
    def test_quitting(self, tmp_path: Path, key: str, inside: bool) -> None:
        async def act(stage: Stage) -> None:
            if inside:
                await stage.open()
            await stage.press(key)
            assert stage.app._exit

        play(act, captured(tmp_path))

    def test_in_a_tiny_terminal_the_rows_come_before_the_lines_about_losses(self, tmp_path: Path) -> None:
        path = lossy(tmp_path / "x" / "x.mcpcap", conversation(1), 10)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("g")
            await stage.see("→  initialize")
            assert "lost" not in stage.text()
            await stage.pilot.resize_terminal(40, 12)
            await stage.see("10 records lost", "initialize")

        play(act, path, size=(20, 5))

    @pytest.mark.parametrize("size", sizes((1, 1), soak=[(20, 10), (2, 3), (10, 4), (40, 12), (80, 24), (300, 100)]))
    def test_any_size_survives_every_key(self, tmp_path: Path, size: tuple[int, int]) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            for key in (
                "down",
                "enter",
                "2",
                "3",
                "4",
                "6",
                "slash",
                "a",
                "escape",
                "tab",
                "G",
                "x",
                "x",
                "p",
                "n",
                "slash",
                "a",
                "enter",
                "t",
            ):
                await stage.press(key)
            await stage.pilot.resize_terminal(60, 20)
            await stage.pilot.resize_terminal(*size)
            await stage.press("question_mark", "escape", "escape", "escape", "escape")

        play(act, captured(tmp_path), size=size)

    def test_the_mouse_selects_opens_and_scrolls(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.pilot.click("#traffic", offset=(20, 4))
            assert stage.traffic.table.cursor == 3
            await stage.pilot.click("#traffic", offset=(20, 4), times=2)
            await stage.see("1 text")
            table = stage.traffic.table
            table.scroll_to(y=10, animate=False, immediate=True)
            await stage.pilot.pause()
            assert table.cursor >= 10

        play(act, captured(tmp_path, calls=40))
