"""Turns on the screens: which prompt caused a call, and all calls that it caused on other servers."""

import re
from pathlib import Path

import pytest

from mcpproxy.tui.rows.sql_rows import ViewRows
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.columns import TableRows
from mcpproxy.tui.widgets.table import Table
from tests.mcpproxy.tui.stage import Stage, play_each
from tests.mcpproxy.turn_captures import TURN, write_turns


async def go_to(stage: Stage, frame: int) -> None:
    await stage.press("colon", str(frame), "enter")
    await stage.settled()


async def the_detail_names_turn_conversation_call_and_trace(stage: Stage) -> None:
    await stage.resize((130, 40))
    await stage.open("search")
    await go_to(stage, 4)
    await stage.press("enter")
    await stage.see("turn         019a…0c0de1 of Codex", "conversation 019a…00beef", "call id      call_2")
    await stage.see("trace        4bf9…0e4736")


async def all_calls_of_the_turn_are_listed_and_lead_to_other_servers_and_back(stage: Stage) -> None:
    await stage.open("search")
    await go_to(stage, 5)
    shown: list[object] = []
    show = Table.show

    def show_and_note(table: Table, rows: TableRows, *, cursor: int = 0) -> None:
        shown.append(rows)
        show(table, rows, cursor=cursor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "show", show_and_note)
        await stage.press("P")
        await stage.see("4 rows")
    assert not [rows for rows in shown if isinstance(rows, ViewRows)]
    await stage.see(
        "› sql  4 calls on 3 servers, 2 failed, 2.7 s of waiting",
        "4 rows",
        f"turn_id = '{TURN}'",
        "write_file",
        "open_ticket",
    )
    await stage.press("G", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.until(lambda: stage.traffic.reading.name == "tickets")
    await stage.until(lambda: stage.traffic.entry == 4)
    await stage.press("escape")
    await stage.see("4 rows", "open_ticket")
    await stage.press("escape", "escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.until(lambda: stage.traffic.reading.name == "search")
    await stage.until(lambda: stage.traffic.entry == 5)


async def the_foot_of_a_wide_screen_names_the_key(stage: Stage) -> None:
    await stage.resize((180, 30))
    await stage.open("search")
    await stage.see("P turn")


async def a_term_selects_the_calls_of_the_turn_here(stage: Stage) -> None:
    await stage.open("files")
    await go_to(stage, 5)
    await stage.press("plus")
    await stage.see("turn:", "client_session:")
    choice = re.search(r"(\d)\W+turn:", stage.text())
    assert choice is not None, stage.text()
    await stage.press(choice[1])
    await stage.see(f'turn:"{TURN}"', "4 of 9 frames")
    await stage.settled()
    shown = [stage.traffic.reading.index.entry(row).seq for row in stage.traffic.listing.entries()]
    assert shown == [4, 5, 6, 7]


async def a_call_whose_client_names_no_turn_says_what_it_names(stage: Stage) -> None:
    await stage.open("notes")
    await go_to(stage, 4)
    await stage.press("P")
    await stage.see("1 call of Claude Code names no turn:")
    await go_to(stage, 3)
    await stage.press("P")
    await stage.see("this row is not part of an exchange")
    assert not isinstance(stage.app.screen, SqlScreen)


def test_turns_on_the_screens(tmp_path: Path) -> None:
    acts = (
        the_detail_names_turn_conversation_call_and_trace,
        all_calls_of_the_turn_are_listed_and_lead_to_other_servers_and_back,
        the_foot_of_a_wide_screen_names_the_key,
        a_term_selects_the_calls_of_the_turn_here,
        a_call_whose_client_names_no_turn_says_what_it_names,
    )
    play_each(acts, *write_turns(tmp_path))
