"""Rows of the traffic: what they say at a glance, in which order, and how to point at what is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.style import Style

from analysis.summary import Summary
from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.report.text import Span
from mcpproxy.report.units import few
from mcpproxy.report.wording import asked_and_answered
from mcpproxy.tui import clock
from mcpproxy.tui.data.exchanges import NONE
from mcpproxy.tui.data.http_exchanges import HttpExchanges
from mcpproxy.tui.data.paces import LEAST, Paces
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_views import Left, Without
from mcpproxy.tui.data.sorting import RUN, Sorting
from mcpproxy.tui.safe_text import segments
from mcpproxy.tui.screens.sessions import COLUMNS, SessionsScreen, age
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header, in_pieces, lines
from tests.mcpproxy.tui.http_talk import http_talk
from tests.mcpproxy.tui.stage import CALL, END, Act, Stage, captured, conversation, play, play_each, record, said
from tests.mcpproxy.tui.test_latency_integration import timed

SIZES = ((80, 24), (140, 40))


@contextmanager
def understood(path: Path) -> Iterator[Reading]:
    """A capture that was read to its end."""
    reading = Reading(path)
    try:
        while not reading.has_ended:
            reading.step()
        yield reading
    finally:
        reading.close()


def row_with(stage: Stage, text: str) -> str:
    """The line of the screen that contains a text."""
    return next(line for line in stage.text().split("\n") if text in line)


class TestAtAGlance:
    @pytest.mark.parametrize("size", SIZES)
    def test_an_answer_says_what_it_found(self, tmp_path: Path, size: tuple[int, int]) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("content", "found 1", '{"n":1}')
            assert " ok " in row_with(stage, "found 1")
            await stage.press("x")
            await stage.see('{"n":1} ⇒ found 1')

        play(act, captured(tmp_path), size=size)

    def test_a_second_answer_is_named_as_in_show(self, tmp_path: Path) -> None:
        entries = [*conversation(1)[:6], said("s2c", b'{"jsonrpc":"2.0","id":1,"result":{}}'), END]
        unknown = said("s2c", b'{"jsonrpc":"2.0","id":77,"result":{}}')

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("answered before", "fits no request")
            assert " 1 " in row_with(stage, "answered before")
            assert " 77 " in row_with(stage, "fits no request")

        play(act, record(tmp_path / "library/x.mcpcap", [*entries[:-1], unknown, END]), size=(140, 24))

    def test_white_space_is_folded_and_nothing_acts_on_the_terminal(self, tmp_path: Path) -> None:
        text = rb"The sum\n\t is   3\u001b[31m\u202e"
        answer = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%b"}]}}' % text
        failure = answer.replace(b'"result":{', b'"result":{"isError":true,').replace(b":7,", b":8,")
        calls = [said("c2s", CALL % (7, 7)), said("s2c", answer), said("c2s", CALL % (8, 8)), said("s2c", failure)]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see(r"The sum is 3\x1b[31m\u202e")
            assert stage.text().count("The sum is 3") == 2

        play(act, record(tmp_path / "library/x.mcpcap", [*conversation(1)[:4], *calls, END]), size=(140, 24))

    @pytest.mark.parametrize(
        ("asked", "answered", "room", "shown"),
        [
            ('{"a":1}', "The sum is 3", 40, '{"a":1} ⇒ The sum is 3'),
            ("", "3 tools", 40, "⇒ 3 tools"),
            ("7", "", 40, "7"),
            ("", "", 40, ""),
            ("a" * 30, "b" * 30, 23, "a" * 9 + "… ⇒ " + "b" * 30),
            ("a" * 30, "bb", 23, "a" * 17 + "… ⇒ bb"),
        ],
    )
    def test_a_question_leaves_room_for_its_answer(self, asked: str, answered: str, room: int, shown: str) -> None:
        assert asked_and_answered(asked, answered, room) == shown

    def test_a_wide_character_that_is_cut_leaves_one_ellipsis(self) -> None:
        for width in range(4, 30):
            parts = segments([Span("図書館の目録を検索する道具"), Span("  more")], width, {"plain": Style()})
            assert "".join(part.text for part in parts).count("…") <= 1

    def test_a_result_above_a_mebibyte_has_all_that_is_known(self, tmp_path: Path) -> None:
        answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}]}}' % (b"x" * (3 << 20))
        path = record(
            tmp_path / "library/x.mcpcap",
            [*conversation(0)[:4], said("c2s", CALL % (1, 1)), *in_pieces("s2c", answer, 1 << 20), END],
        )

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("3.1 MB, too large")
            line = row_with(stage, "3.1 MB, too large")
            assert all(text in line for text in ("tools/call search", " 1 ", " ok ", " ms "))

        play(act, path, size=(140, 24))


class TestHttp:
    def test_it_reads_like_stdio(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("ok · 200 · 2 events", "found 2")
            assert "stream" not in stage.text()
            await stage.press("b")
            await stage.see("all records", "stream opened", "stream ended after 2 events")
            await stage.press("slash", *"has:error", "enter")
            await stage.see("nothing matches has:error")
            await stage.press("escape")
            await stage.see("all records", "stream opened")
            await stage.press("b")
            await stage.see("messages only")
            assert "stream" not in stage.text()
            assert "server exited" in stage.text()
            await stage.press("b")
            await stage.until(lambda: "messages only" not in stage.text())

        play(act, http_talk(tmp_path), size=(140, 40))

    def test_the_status_has_room_in_eighty_columns(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("ok · 200 ", "found 2")

        play(act, http_talk(tmp_path), size=(80, 24))

    def test_the_palette_has_it_too(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("ctrl+p", *"Records")
            await stage.see("show only messages, or all records")
            await stage.press("enter")
            await stage.see("all records", "stream opened")

        play(act, http_talk(tmp_path), size=(140, 40))

    def test_over_stdio_the_other_records_are_hidden_and_shown(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("stderr: warning", "server exited")
            await stage.press("b")
            await stage.see("messages only", "server exited")
            assert "stderr: warning" not in stage.text()
            await stage.press("b")
            await stage.see("stderr: warning")
            assert "all records" not in stage.text()

        play(act, captured(tmp_path))

    def test_a_view_leaves_out_places_of_a_list_that_grows(self) -> None:
        rows, left = list(range(0, 40, 2)), Left()
        view = Without(rows, left)
        for place in (0, 3, 4, 19):
            left.add(place)
        wanted = [row for place, row in enumerate(rows) if place not in (0, 3, 4, 19)]
        assert [*view] == wanted
        assert [view[number] for number in range(len(view))] == wanted
        assert view[2:5] == wanted[2:5]
        assert [view.index(row) for row in wanted] == [*range(len(wanted))]
        with pytest.raises(ValueError, match="6"):
            view.index(6)
        left.add(20)
        assert [*view] == wanted
        rows.append(99)
        assert [*view] == wanted
        rows.append(100)
        assert [*view] == [*wanted, 100]

    def test_numbers_of_exchanges_are_not_trusted(self, tmp_path: Path) -> None:
        hostile = [
            ("exchange", members(exchange=number, stage="response", request=request, response=response))
            for number in (-1, 1 << 62, "7", 3)
            for request, response in (
                (None, {"status": "200"}),
                ([], {"status": -5}),
                ({"method": 7}, {"status": 1 << 70}),
            )
        ]
        path = record(tmp_path / "library/x.mcpcap", [("header", header(transport="http")), *hostile, END])
        with understood(path) as reading:
            assert all(reading.http.answer(number) is None for number in (None, 0, 3, 1 << 62))
        assert HttpExchanges().answer(0) is None


class TestNumbers:
    @pytest.mark.parametrize("size", SIZES)
    def test_a_number_is_gone_to(self, tmp_path: Path, size: tuple[int, int]) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see(" # ")
            assert row_with(stage, "found 1").split()[0] == "5"
            await stage.press("colon", *"11", "enter")
            assert stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 11
            await stage.press("colon", *"1,000", "enter")
            await stage.see("no record 1,000; the last is 18")
            assert stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 11
            await stage.press("colon", *"x", "enter")
            await stage.see("expected the number of a frame")
            await stage.press("slash", *"has:error", "enter")
            await stage.see("2 of 16 frames")
            await stage.press("colon", *"5", "enter")
            assert stage.traffic.entry == 5
            await stage.press("x", "colon", *"7", "enter")
            assert stage.traffic.entry == 6

        play(act, captured(tmp_path), size=size)

    def test_a_record_that_is_left_out_is_shown(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("colon", *"14", "enter")
            await stage.see("all records", "stream opened")
            assert stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 14
            await stage.press("colon", *"3", "enter")
            await stage.see("record 3 has no row of its own; the nearest is")

        play(act, http_talk(tmp_path), size=(140, 40))


class TestOrder:
    def test_the_keys_and_the_headings(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            table = stage.traffic.table

            def seqs() -> list[int]:
                return [*stage.traffic._rows.view]

            await stage.press("s")
            await stage.see("by latency ▼", "latency▼")
            await stage.press("s")
            await stage.see("by size ▼", "size▼")
            sizes = [stage.traffic.reading.index.entry(row).size for row in seqs()]
            assert sizes == sorted(sizes, reverse=True)
            await stage.press("s")
            await stage.see("by status ▼", "status▼")
            assert seqs()[:3] == [9, 15, 17]
            await stage.pilot.click(table, offset=(stage.text().split("\n")[1].index("status"), 0))
            await stage.see("by status ▲", "status▲")
            assert seqs()[-1] != 9
            await stage.press("n")
            assert stage.traffic.entry is not None
            await stage.press("escape")
            await stage.until(lambda: "by status" not in stage.text())
            assert seqs() == sorted(seqs())
            await stage.press("x", "s", "s", "s")
            await stage.see("by status ▼")
            await stage.press("s")
            await stage.until(lambda: "by status" not in stage.text())

        play(act, captured(tmp_path), size=(140, 40))

    def test_the_first_row_of_an_order_is_in_sight(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("G", "up", "up", "s")
            await stage.see("by latency ▼")
            assert stage.traffic.table.cursor == 0
            await stage.until(lambda: stage.traffic.table.scroll_y == 0)

        play(act, captured(tmp_path, calls=60), size=(80, 24))

    def test_a_size_is_shown_where_it_is_the_order(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("s", "s")
            await stage.see("by size ▼", "153 B")

        play(act, captured(tmp_path), size=(80, 24))

    @pytest.mark.parametrize("column", ["latency", "size", "status", "time"])
    @pytest.mark.parametrize("is_down", [True, False])
    @pytest.mark.parametrize("is_exchanges", [True, False])
    def test_many_rows(self, tmp_path: Path, column: str, *, is_down: bool, is_exchanges: bool) -> None:
        with understood(captured(tmp_path, calls=RUN)) as reading:
            view = reading.exchanges.request if is_exchanges else reading.shown
            sorting = Sorting(reading, view, column, is_down=is_down, is_exchanges=is_exchanges)
            steps = 0
            while sorting.step():
                steps += 1
                assert 0 < sorting.progress <= 1
            assert steps > 2
            assert sorted(sorting.rows) == [*view]
            values = [sorting._value(row) for row in sorting.rows]
            known = [value for value in values if value >= 0]
            assert values[: len(known)] == known
            assert known == sorted(known, reverse=is_down)
            assert column != "latency" or len(known) == RUN + 2, (
                "the calls, initialize, and the request without an answer"
            )
            assert NONE not in sorting.rows


class TestPointing:
    def test_the_keys(self, tmp_path: Path) -> None:
        acts: tuple[Act, ...] = (
            a_value_is_added_and_taken_back,
            a_value_is_excluded,
            an_exchange_offers_the_error_of_its_answer,
            errors_only,
            what_is_no_message_has_no_term,
        )
        play_each(acts, captured(tmp_path), size=(140, 40))

    def test_a_single_term_needs_no_choice(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "down", "down", "plus", "enter")
            await stage.see("name:search  13 of 16 frames")
            await stage.press("plus", "enter")
            await stage.see("name:search method:tools/call  13 of 16 frames")
            await stage.press("plus")
            await stage.see("name:search method:tools/call dir:c2s  7 of 16 frames")

        play(act, captured(tmp_path), size=(140, 40))


async def an_exchange_offers_the_error_of_its_answer(stage: Stage) -> None:
    await stage.open()
    await stage.press("x", "home", "down", "down", "down", "plus")
    await stage.see(
        "name:search         tool",
        "code:-32602         status",
        "has:error           status",
        "dir:c2s             side",
    )
    await stage.press("3")
    await stage.see("code:-32602", "2 of 16 frames", "no such page")


async def a_value_is_added_and_taken_back(stage: Stage) -> None:
    await stage.open()
    await stage.press("down", "down", "down", "plus")
    await stage.see("name:search         tool", "method:tools/call   method", "dir:c2s             side")
    await stage.press("enter")
    await stage.see("name:search", "13 of 16 frames")
    await stage.press("plus", "2")
    await stage.see("name:search dir:c2s", "7 of 16 frames")
    await stage.press("slash")
    assert stage.traffic.query_one(FilterBox).value == "name:search dir:c2s"
    await stage.press("escape", "slash", *" id:77", "enter")
    await stage.see("nothing matches name:search dir:c2s id:77; case matters; Esc shows 7 rows")
    await stage.press("escape")
    await stage.see("name:search dir:c2s", "7 of 16 frames")
    await stage.press("escape")
    await stage.see("name:search  13 of 16 frames")
    await stage.press("escape")
    await stage.see("initialize")
    assert "name:" not in stage.text()
    await stage.press("escape")
    assert isinstance(stage.app.screen, SessionsScreen)


async def a_value_is_excluded(stage: Stage) -> None:
    await stage.open()
    await stage.press("down", "down", "down", "minus")
    await stage.see("not name:search")
    await stage.press("1")
    await stage.see("not name:search", "3 of 16 frames")
    assert "found" not in stage.text()


async def errors_only(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"id:3 or id:4", "enter")
    await stage.see("4 of 16 frames")
    await stage.press("exclamation_mark")
    await stage.see("(id:3 or id:4) has:failure", "1 of 16 frames", "no such page")
    await stage.press("exclamation_mark")
    await stage.see("id:3 or id:4", "4 of 16 frames")


async def what_is_no_message_has_no_term(stage: Stage) -> None:
    await stage.open()
    await stage.press("G", "plus")
    await stage.see("no filter term fits this row")


class TestPaces:
    def test_a_response_is_slow_above_the_p95_of_its_kind(self) -> None:
        paces = Paces()
        for number in range(LEAST):
            assert not paces.is_slow(1, 10**12)
            paces.add(1, 1_000_000 + number)
        assert paces.is_slow(1, 2_000_000)
        assert not paces.is_slow(1, 1_000_000)
        assert not paces.is_slow(2, 2_000_000)


class TestSessions:
    def test_an_imported_session_stands_where_it_took_place(self, tmp_path: Path) -> None:
        old = record(
            tmp_path / "imported/20261124T101502Z-4f2a.mcpcap",
            [("header", header(name="imported", wall_ns=1_760_000_000_000_000_000)), *conversation(1)[1:], END],
        )
        new = captured(tmp_path, "recent", stamp="20261121T101502Z-4f2a")

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.see("imported", "recent", "ago")
            lines = stage.text().split("\n")
            places = {name: n for n, line in enumerate(lines) for name in ("imported", "recent") if name in line}
            assert places["recent"] < places["imported"]

        play(act, old, new, size=(140, 24))

    @pytest.mark.parametrize(
        ("days", "text"),
        [(0, "0s ago"), (3, "3d ago"), (99, "99d ago"), (100, "14w ago"), (364, "52w ago"), (800, "2y ago")],
    )
    def test_ages_fit_their_column(self, monkeypatch: pytest.MonkeyPatch, days: int, text: str) -> None:
        monkeypatch.setattr(clock, "since_ns", lambda _: days * 86_400 * 10**9)
        assert age(Summary(wall_ns=1), live=False) == text
        assert len(text) <= next(column.width for column in COLUMNS if column.name == "age")

    def test_counts_fit_their_column(self) -> None:
        texts = [
            few(count) for count in (0, 999, 1000, 1049, 9_949, 9_950, 99_499, 999_499, 999_500, 1_250_000, 10**10)
        ]
        assert texts == ["0", "999", "1.0k", "1.0k", "9.9k", "10k", "99k", "999k", "1.0M", "1.2M", "10G"]


def test_a_latency_above_the_p95_of_its_tool_is_warm(tmp_path: Path) -> None:
    made = conversation(3 * LEAST)
    # The last call takes 300 ms; all others take 1.
    stamps_ms = [*range(len(made) - 3), len(made) + 300, len(made) + 301, len(made) + 302]
    path = timed(tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", made, stamps_ms)

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("G")
        await stage.see("304 ms")
        strips = stage.app.screen._compositor.render_strips()
        colours = {
            segment.text.strip(): segment.style.color
            for strip in strips
            for segment in strip
            if segment.style is not None
        }
        slow, usual = colours["304 ms"], colours["1.0 ms"]
        assert slow is not None
        assert usual is not None
        assert slow != usual

    play(act, path, size=(140, 24))


class TestLive:
    def test_what_is_missed_is_counted_and_the_end_stays(self, tmp_path: Path) -> None:
        made = CaptureFile(tmp_path / "live.mcpcap")
        known = lines(conversation(30))
        for line in known:
            made.append(line)
        count = len(known)

        def more(rec: str, middle: bytes) -> None:
            nonlocal count
            made.append(seal(count, count * 10**6, rec, middle))
            count += 1

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter")
            await stage.see("● following")
            await stage.press("up")
            await stage.see("‖ paused · f")
            for n in range(3):
                more(*said("c2s", CALL % (500 + n, n)))
            await stage.see("‖ paused · 3 new · f", "waiting")
            await stage.press("f")
            await stage.see("● following")
            await stage.press("s")
            await stage.see("by latency ▼", "‖ paused")
            more(*said("c2s", CALL % (600, 6)))
            await stage.see("by latency ▼ · 1 newer row not listed")
            await stage.press("f")
            await stage.see("● following")
            more("process", members(event="ended", status=0, pid=1))
            more("close", members(ending="server", status=0, totals={}))
            made.close()
            await stage.see("○ exited 0")

        play(act, tmp_path / "live.mcpcap", size=(140, 30))

    def test_a_bad_end_is_marked_as_in_the_list(self, tmp_path: Path) -> None:
        crash = ("close", members(ending="server", status=3, totals={}))

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("✝ exited 3")

        play(act, record(tmp_path / "library/x.mcpcap", [*conversation(2), crash]))

    def test_progress_only_goes_forward(self, tmp_path: Path) -> None:
        reading = Reading(captured(tmp_path, calls=20_000))
        try:
            shares = [reading.progress]
            while not reading.has_ended:
                reading.step()
                shares.append(reading.progress)
        finally:
            reading.close()
        assert shares == sorted(shares)
        assert shares[0] < 0.2
        assert shares[-1] == 1

    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_a_title_is_not_cut_beside_empty_space(self, tmp_path: Path, width: int) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("slash", *"method:tools/call name:search", "enter")
            await stage.see("13 of 16 frames")
            head = stage.text().split("\n")[0]
            assert "…" not in head or len(head) >= width - 3

        play(act, captured(tmp_path, "a-server-with-a-name-that-takes-all-the-room-there-is"), size=(width, 24))
