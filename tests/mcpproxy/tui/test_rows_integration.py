"""Rows of the traffic: what they show, in which order, and how to go to a particular one."""

from functools import partial
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.data.call_cells import MIN_RESPONSES
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header, in_pieces, lines
from tests.mcpproxy.tui.http_talk import http_talk
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    Act,
    Size,
    Stage,
    captured,
    conversation,
    frame_record,
    play,
    play_each,
    record,
    timed,
)


def row_with(stage: Stage, text: str) -> str:
    """The line of the screen that contains a text."""
    return next(line for line in stage.text().split("\n") if text in line)


NAME = "a-server-with-a-name-that-takes-all-the-room-there-is"


def seven(folder: Path) -> list[Path]:
    """Captures, each in a folder named after what is special about it; all are small except for one result."""
    twice = [frame_record("s2c", b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number) for number in (1, 77)]
    text = rb"The sum\n\t is   3\u001b[31m\u202e"
    answer = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%b"}]}}' % text
    failure = answer.replace(b'"result":{', b'"result":{"isError":true,').replace(b":7,", b":8,")
    calls = [
        frame_record("c2s", CALL % (7, 7)),
        frame_record("s2c", answer),
        frame_record("c2s", CALL % (8, 8)),
        frame_record("s2c", failure),
    ]
    large = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}]}}' % (b"x" * (3 << 20))
    made = conversation(3 * MIN_RESPONSES)
    # The last call takes 300 ms; all others take 1 ms.
    stamps_ms = [*range(len(made) - 3), len(made) + 300, len(made) + 301, len(made) + 302]
    crash = ("close", members(ending="server", status=3, totals={}))
    return [
        record(folder / "twice/x.mcpcap", [*conversation(1)[:6], *twice, END]),
        record(folder / "space/x.mcpcap", [*conversation(1)[:4], *calls, END]),
        record(
            folder / "large/x.mcpcap",
            [*conversation(0)[:4], frame_record("c2s", CALL % (1, 1)), *in_pieces("s2c", large, 1 << 20), END],
        ),
        timed(folder / "slow/x.mcpcap", made, stamps_ms),
        record(folder / "crashed/x.mcpcap", [*conversation(2), crash]),
        record(folder / "long/x.mcpcap", [*conversation(60), END]),
        http_talk(folder / "http"),
    ]


async def an_answer_says_what_it_found(stage: Stage, size: Size = (80, 24)) -> None:
    await stage.resize(size)
    await stage.open()
    await stage.see("content", "found 1", '{"n":1}')
    assert " ok " in row_with(stage, "found 1")
    await stage.press("x")
    await stage.see("1 ⇒ found 1")


async def a_second_answer_is_named_as_in_show(stage: Stage) -> None:
    await stage.open("twice")
    await stage.see("answered before", "fits no request")
    assert " 1 " in row_with(stage, "answered before")
    assert " 77 " in row_with(stage, "fits no request")


async def white_space_is_folded_and_nothing_acts_on_the_terminal(stage: Stage) -> None:
    await stage.open("space")
    await stage.see(r"The sum is 3\x1b[31m\u202e")
    assert stage.text().count("The sum is 3") == 2


async def a_result_above_a_mebibyte_has_all_that_is_known(stage: Stage) -> None:
    await stage.open("large")
    await stage.see("3.1 MB, too large")
    line = row_with(stage, "3.1 MB, too large")
    assert all(text in line for text in ("tools/call search", " ok ", "ms "))


async def http_reads_like_stdio(stage: Stage) -> None:
    await stage.open("library")
    await stage.see("ok · 200 · 2 events", "found 2")
    assert "stream" not in "\n".join(stage.text().splitlines()[:-2])
    await stage.press("b")
    await stage.see("all records", "stream opened", "stream ended after 2 events")
    await stage.press("slash", *"has:error", "enter")
    await stage.see("nothing matches has:error")
    await stage.press("escape")
    await stage.see("all records", "stream opened")
    await stage.press("b")
    await stage.see("messages only")
    assert "stream" not in "\n".join(stage.text().splitlines()[:-2])
    assert "server exited" in stage.text()
    await stage.press("b")
    await stage.until(lambda: "messages only" not in stage.text())
    # The status also fits into eighty columns.
    await stage.pilot.resize_terminal(80, 24)
    await stage.see("ok · 200 ", "found 2")
    await stage.pilot.resize_terminal(140, 40)
    # Going to the number of a hidden record shows all records.
    await stage.press("colon", *"14", "enter")
    await stage.see("all records", "stream opened")
    assert stage.traffic.reading.index.entry(stage.traffic.entry or 0).seq == 14
    await stage.press("colon", *"3", "enter")
    await stage.see("record 3 has no row of its own; the nearest is")
    # The palette can show all records, too.
    await stage.press("b", "b")
    await stage.until(lambda: "messages only" not in stage.text() and "all records" not in stage.text())
    await stage.press("ctrl+p", *"Records")
    await stage.see("only messages, or all records")
    await stage.press("enter")
    await stage.see("all records", "stream opened")


async def a_number_is_gone_to(stage: Stage, size: Size = (80, 24)) -> None:
    await stage.resize(size)
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


async def the_keys_and_the_headings_of_an_order(stage: Stage) -> None:
    await stage.open()
    table = stage.traffic.table

    def seqs() -> list[int]:
        return [*stage.traffic.listing.rows.view]

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


async def the_first_row_of_an_order_is_in_sight_with_its_size(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open("long")
    await stage.press("G", "up", "up", "s")
    await stage.see("by latency ▼")
    assert stage.traffic.table.cursor == 0
    await stage.until(lambda: stage.traffic.table.scroll_y == 0)
    await stage.press("s")
    await stage.see("by size ▼", "153 B")


async def a_latency_above_the_p95_of_its_tool_is_warm(stage: Stage) -> None:
    await stage.open("slow")
    await stage.press("G")
    await stage.see("304ms")
    strips = stage.app.screen._compositor.render_strips()
    colours = {
        segment.text.strip(): segment.style.color for strip in strips for segment in strip if segment.style is not None
    }
    slow, usual = colours["304ms"], colours["1.0ms"]
    assert slow is not None
    assert usual is not None
    assert slow != usual


async def a_bad_end_is_marked_as_in_the_list(stage: Stage) -> None:
    await stage.open("crashed")
    await stage.see("✝ exited 3")


async def a_title_is_not_cut_beside_empty_space(stage: Stage, size: Size = (80, 24)) -> None:
    await stage.resize(size)
    await stage.open()
    await stage.press("slash", *"method:tools/call name:search", "enter")
    await stage.see("13 of 16 frames")
    head = stage.text().split("\n")[0]
    assert "…" not in head or len(head) >= size[0] - 3


async def a_single_term_needs_no_choice(stage: Stage) -> None:
    await stage.open()
    await stage.press("down", "down", "down", "plus", "enter")
    await stage.see("name:search  13 of 16 frames")
    await stage.press("plus", "enter")
    await stage.see("name:search method:tools/call  13 of 16 frames")
    await stage.press("plus")
    await stage.see("name:search method:tools/call dir:c2s  7 of 16 frames")


async def the_other_records_are_hidden_and_shown(stage: Stage) -> None:
    await stage.open()
    await stage.see("stderr: warning", "server exited")
    await stage.press("b")
    await stage.see("messages only", "server exited")
    assert "stderr: warning" not in stage.text()
    await stage.press("b")
    await stage.see("stderr: warning")
    assert "all records" not in stage.text()


async def an_call_offers_the_error_of_its_answer(stage: Stage) -> None:
    await stage.open()
    await stage.press("x", "home", "down", "down", "down", "plus")
    await stage.see(
        "name:search         tool",
        "code:-32602         status",
        "has:error           status",
        "dir:c2s             side",
    )
    await stage.press("3")
    await stage.see("code:-32602", "2 of 8 exchanges", "no such page")


async def a_value_is_added_and_taken_back(stage: Stage) -> None:
    await stage.open()
    await stage.press("down", "down", "down", "plus")
    await stage.see("name:search         tool", "method:tools/call   method", "dir:c2s             side")
    await stage.press("enter")
    await stage.see("name:search", "13 of 16 frames")
    await stage.press("plus", "2")
    await stage.see("name:search dir:c2s", "7 of 16 frames")
    await stage.press("slash")
    assert stage.traffic.query_one(FilterBox).value == "name:search dir:c2s "
    await stage.press("escape", "slash", *"id:77", "enter")
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


@pytest.mark.costly("seven captures, each opened, one of them with a result of 3 MB")
def test_what_rows_say(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        a_second_answer_is_named_as_in_show,
        white_space_is_folded_and_nothing_acts_on_the_terminal,
        a_result_above_a_mebibyte_has_all_that_is_known,
        a_latency_above_the_p95_of_its_tool_is_warm,
        a_bad_end_is_marked_as_in_the_list,
        the_first_row_of_an_order_is_in_sight_with_its_size,
        http_reads_like_stdio,
    )
    play_each(acts, *seven(tmp_path), size=(140, 40))


@pytest.mark.costly("filters, orders and numbers, each with the keys that lead there and back")
def test_the_keys(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        an_answer_says_what_it_found,
        a_number_is_gone_to,
        the_keys_and_the_headings_of_an_order,
        a_value_is_added_and_taken_back,
        a_value_is_excluded,
        an_call_offers_the_error_of_its_answer,
        errors_only,
        what_is_no_message_has_no_term,
        a_single_term_needs_no_choice,
        the_other_records_are_hidden_and_shown,
        a_title_is_not_cut_beside_empty_space,
    )
    play_each(acts, captured(tmp_path, NAME), size=(140, 40))


@pytest.mark.soak
@pytest.mark.parametrize("size", [(100, 24), (140, 24), (140, 40)])
def test_in_other_sizes(tmp_path: Path, size: Size) -> None:
    sized = (an_answer_says_what_it_found, a_number_is_gone_to, a_title_is_not_cut_beside_empty_space)
    play_each([partial(act, size=size) for act in sized], captured(tmp_path, NAME))


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

            def is_in_place() -> bool:
                # Until a session is summarised, only the name of its file says when it took place.
                lines = stage.text().split("\n")
                places = {name: n for n, line in enumerate(lines) for name in ("imported", "recent") if name in line}
                return places["recent"] < places["imported"]

            await stage.until(is_in_place, "the imported session to stand behind the recent one")

        play(act, old, new, size=(140, 24))


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
                more(*frame_record("c2s", CALL % (500 + n, n)))
            await stage.see("‖ paused · 3 new · f", "waiting")
            await stage.press("f")
            await stage.see("● following")
            await stage.press("s")
            await stage.see("by latency ▼", "‖ paused")
            more(*frame_record("c2s", CALL % (600, 6)))
            await stage.see("by latency ▼ · 1 newer row not listed")
            await stage.press("f")
            await stage.see("● following")
            more("process", members(event="ended", status=0, pid=1))
            more("close", members(ending="server", status=0, totals={}))
            made.close()
            await stage.see("○ exited 0")

        play(act, tmp_path / "live.mcpcap", size=(140, 30))
