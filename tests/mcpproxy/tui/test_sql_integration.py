"""SQL on the screen: queries, completion, stopping and limits; the process that answers ends with the screen."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.history import past_statements, remember_statement
from mcpproxy.sql.client import SqlClient
from mcpproxy.tui.messages import SqlReplied
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.editor import Editor
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.path_box import PathBox
from mcpproxy.tui.widgets.table import Table
from tests.captures.samples import header, lines
from tests.harness import ROOT, children, is_alive, wait_until
from tests.mcpproxy.tui.stage import CALL, Act, Stage, captured, conversation, frame_record, play, play_each, record

RUNAWAY = "select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 7"


def screen_of(stage: Stage) -> SqlScreen:
    assert isinstance(stage.app.screen, SqlScreen)
    return stage.app.screen


async def ask(stage: Stage, sql: str) -> None:
    """Type a statement and run it."""
    screen_of(stage).query_one(Editor).set_text(sql)
    screen_of(stage).query_one(Editor).focus()
    await stage.press("enter")
    await stage.until(lambda: not stage.app.sql.is_busy)


async def enter(stage: Stage) -> None:
    """Open the screen from the list, and wait until it shows the tables to query."""
    await stage.listed()
    await stage.press("Q")
    await stage.see("› sql", "each row is", "latency_histogram")


async def it_shows_what_there_is_to_ask_and_takes_an_example(stage: Stage) -> None:
    await enter(stage)
    await stage.see("1 capture", "calls", "one row per request")
    await stage.press("tab", "down", "enter")
    assert "from calls" in screen_of(stage).query_one(Editor).text
    await stage.press("enter")
    await stage.until(lambda: stage.app.sql.result is not None)
    await stage.see("library", "1 row")


async def a_row_leads_to_its_frame_and_escape_back_to_the_rows(stage: Stage) -> None:
    await enter(stage)
    await ask(stage, "select method, capture, request from calls order by request desc")
    await stage.see("8 rows")
    await stage.press("down", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.until(lambda: stage.traffic.entry == 14)
    await stage.press("Q")
    await stage.see("each row is")
    await ask(stage, "select 42 as frame")
    await stage.see("1 row ")
    await stage.press("enter")
    await stage.see("record 42 is not in the traffic")
    await stage.press("escape", "escape", "escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.press("escape")
    await stage.see("8 rows", "tools/call")
    await stage.press("o")
    await stage.see("request  14")
    await ask(stage, "select 'again' as word")
    await stage.see("again", "1 row ")
    await stage.press("enter")
    await stage.see("word  again")


async def what_is_wrong_is_told_below_with_the_answer_before_and_a_query_can_be_stopped(stage: Stage) -> None:
    await enter(stage)
    await ask(stage, "selct 1")
    await stage.see('syntax error at or near "selct"', "^^^^^", "each row is")
    assert "previous result" not in stage.text()
    # Next to the tree, they are not listed again.
    await stage.resize((140, 30))
    await stage.see("tables and views", "no result")
    assert stage.text().count("latency_histogram") == 1
    assert "each row is" not in stage.text()
    await stage.resize((100, 30))
    await stage.see("each row is")
    await ask(stage, "select 'good' as n")
    await stage.see("good", "1 row")
    await ask(stage, "selct 2")
    await stage.see("syntax error", "good", "the previous result is below")
    assert "1 row" not in stage.text()
    await ask(stage, "select 'better' as n")
    await stage.see("better", "1 row")
    assert "previous result" not in stage.text()
    for key in ("escape", "ctrl+c"):
        screen_of(stage).query_one(Editor).set_text(RUNAWAY)
        screen_of(stage).query_one(Editor).focus()
        await stage.press("enter")
        await stage.until(lambda: stage.app.sql.is_busy)
        await stage.press(key)
        await stage.see("stopped")
        assert isinstance(stage.app.screen, SqlScreen)
    await ask(stage, "select 'still ' || 'there' as x")
    await stage.see("still there")
    await ask(stage, "copy (select 1) to '/tmp/never'")
    await stage.see("ermission")


async def an_answer_is_bounded_and_says_so(stage: Stage) -> None:
    await enter(stage)
    await ask(stage, "from range(1000000)")
    await stage.see("the first 10,000 rows")
    await ask(stage, "select repeat('x', 100000) as long from range(5000)")
    await stage.see("the first 2,0")


async def hostile_names_and_values_are_only_text(stage: Stage) -> None:
    await enter(stage)
    await ask(stage, """select chr(27) || ']52;c;x' || chr(7) || '[/b]' as "a\u202e[@click=app.quit]b" """)
    await stage.see("\\x1b]52;c;x\\x07[/b]", "\\u202e[@click=app.quit]b")
    await stage.press("enter")
    await stage.see("\\x1b]52")
    assert "\x1b" not in stage.text()
    assert "\u202e" not in stage.text()


async def an_example_takes_the_place_of_what_is_typed_and_loses_none_of_it(stage: Stage) -> None:
    await enter(stage)
    editor = screen_of(stage).query_one(Editor)
    await stage.press(*"select 1", "tab", "enter")
    assert editor.has_focus
    assert "select 1" not in editor.text
    while editor.cursor_location[0]:
        await stage.press("up")
    await stage.press("up")
    assert editor.text == "select 1"


async def an_answer_its_rows_and_its_columns(stage: Stage) -> None:
    await stage.resize((80, 30))
    await enter(stage)
    await ask(stage, "select *, null as nothing from latency order by calls desc")
    await stage.see("tools/call", "columns 1–", "rows")
    assert not any("nothing" in line for line in stage.text().splitlines()[2:])
    assert screen_of(stage).query_one("#answer", Table).has_focus
    await stage.press(*["right"] * 18)
    await stage.see("nothing", "NULL")
    await stage.press("enter")
    await stage.see("p95_ms", "max_ms")
    await stage.press("escape", "v")
    await stage.see("each row is")


RISKY = "select '=1+1' as formula, null as nothing, 1500000 as took_ns, chr(27) || 'x' as escape from range(10002)"


async def all_rows_are_exported_as_they_are_and_those_that_are_shown_copied_so_that_nothing_acts(stage: Stage) -> None:
    await stage.resize((120, 30))
    await enter(stage)
    await stage.press("tab", "e")
    await stage.see("there is no result to export")
    await stage.press("y")
    await stage.see("there is no result to copy")
    await ask(stage, RISKY)
    await stage.see("the first 10,000 rows")
    await stage.press("e")
    await stage.see("query.csv")
    await stage.press("enter")
    await stage.see("exported 10,002 rows to query.csv")
    await stage.press("e")
    for name, text in (
        ("query.csv", "query.csv exists"),
        ("x.txt", "must end in .csv"),
        ("no/x.csv", "cannot write"),
    ):
        stage.app.screen.query_one(PathBox).value = name
        await stage.press("enter")
        await stage.see(text)
    stage.app.screen.query_one(PathBox).value = "y.jsonl"
    await stage.press("enter")
    await stage.see("exported 10,002 rows to y.jsonl")
    await stage.press("y")
    await stage.see("CSV", "JSON lines", "this row")
    await stage.press("c")
    await stage.see("copied CSV: the first", "e exports all")
    assert stage.app.clipboard.startswith('formula,nothing,took_ns,escape\n"\'=1+1",,1500000,')
    assert "\x1b" not in stage.app.clipboard
    await ask(stage, "select chr(155) || 'x' as c1, 1.5 as number")
    await stage.see("1 row ")
    await stage.press("y", "j")
    await stage.see("copied JSON lines, 1 row")
    assert stage.app.clipboard == '{"c1":"\\u009bx","number":1.5}'
    await stage.press("c", "r")
    await stage.see("copied this row")
    assert stage.app.clipboard == "c1      \\x9bx\nnumber  1.5"


async def an_answer_of_thousands_of_columns_takes_a_moment(stage: Stage) -> None:
    await enter(stage)
    began_s = time.process_time()
    await ask(stage, "with wide as (pivot (select i + 1000 as i from range(8000) t(i)) on i) from wide, range(40)")
    await stage.see("columns 1–20 of 8001", "40 rows", "1019")
    await stage.press(*["right"] * 3, "down", "left")
    await stage.see("columns 3–22 of 8001", "1021")
    assert " 1001 " not in stage.text()
    answer = screen_of(stage).answer_rows
    assert answer is not None
    answer.first_column = 7990
    await stage.press("right")
    await stage.see("columns 7992–8001 of 8001", "8999")
    await stage.press("enter")
    await stage.see("1002   1")
    assert time.process_time() - began_s < 60


WIDE = (
    ("repeat('界', 60) as wide", 60),
    ("repeat('界', 200) || repeat('x', 70) as wide", 200),
    ("repeat('e' || chr(769) || '界', 90) as wide", 90),
    (f"repeat('界', 60) as \"{'n' * 60}\"", 60),
    (f"repeat('界', 60) as \"{'名' * 60}\"", 60),
)


async def a_row_in_full_is_all_of_it(stage: Stage) -> None:
    await stage.resize((70, 60))
    await enter(stage)
    for number, (sql, count) in enumerate(WIDE):
        await ask(stage, f"select {sql}, 'ends {number}' as zz")
        await stage.see("1 row")
        await stage.press("enter")
        (pane,) = screen_of(stage).query(Pane)

        def shown(pane: Pane = pane) -> str:
            return "\n".join(stage.text().splitlines()[pane.region.y : -1]) if pane.region.height else ""

        await stage.until(lambda: f"ends {number}" in shown())  # noqa: B023 - asked at once
        assert shown().count("界") == count, sql
        assert shown().count("x") == (70 if "'x'" in sql else 0), sql


@pytest.mark.costly("four captures are loaded, and one of them again after it has grown")
def test_all_that_are_listed_or_the_one_that_is_open(tmp_path: Path) -> None:
    """A query reads them regardless of their names, while one of them grows, and although one cannot be read."""
    ids = [f"{number:032x}" for number in (1, 2, 3)]
    made = [[("header", header(capture=id_, name=f"x{id_[-1]}")), *conversation(2)[1:]] for id_ in ids]
    paths = [record(tmp_path / f"x{id_[-1]}" / f"{id_}.mcpcap", own) for id_, own in zip(ids[:2], made, strict=False)]
    odd = captured(tmp_path, "other").rename(tmp_path / "other" / os.fsdecode(b"caf\xe9-\xff.mcpcap"))
    rotten = tmp_path / os.fsdecode(b"\xfe.mcpcap")
    rotten.write_bytes(b"nothing of ours")
    live = CaptureFile(tmp_path / "live.mcpcap")
    for line in lines(made[2]):
        live.append(line)

    async def act(stage: Stage) -> None:
        await enter(stage)
        await stage.see("5 captures")
        await ask(stage, "select count(*)::varchar || ' asked' as n, max(path) as path from captures")
        await stage.see("4 asked")
        frames = f"select count(*)::varchar || ' frames' as n from frames where capture = '{ids[2]}'"
        await ask(stage, frames)
        await stage.see("8 frames")
        live.append(seal(50, 10**9, "frame", frame_record("c2s", CALL % (50, 1))[1]))
        await ask(stage, frames)
        await stage.until(lambda: "9 frames" in stage.text() or "a capture has grown: Ctrl+R" in stage.text())
        if "9 frames" not in stage.text():
            # On a busy machine, loading takes so long that it is repeated only on request.
            await stage.press("ctrl+r")
        await stage.see("9 frames")
        # A row leads to the capture that it names.
        await ask(stage, f"select seq, capture from frames where seq = 4 and capture < '{ids[2]}' order by capture")
        await stage.see("2 rows")
        for path in paths:
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.until(lambda: stage.traffic.entry == 4)
            assert stage.traffic.reading.path == path
            await stage.press("escape")
            await stage.see("2 rows")
            await stage.press("down")
        await ask(stage, "select 4 as frame")
        await stage.see("1 row ")
        await stage.press("enter")
        await stage.see("frame  4")
        await ask(stage, "select 4 as frame, 'nothing' as capture")
        await stage.press("enter")
        await stage.see("the row does not say which capture")
        await stage.back()
        await stage.choose("x1")
        await stage.press("enter", "Q")
        await ask(stage, "select count(*)::varchar || ' asked' as n from captures")
        await stage.see("1 asked", "x1 › sql")
        assert screen_of(stage).entry is None
        await ask(stage, "select 4 as frame")
        await stage.until(lambda: screen_of(stage).entry == 4, "the row from which other screens are opened")

    play(act, *paths, odd, rotten, tmp_path / "live.mcpcap")
    live.close()


async def in_eighty_columns_the_slowest_calls_have_names_and_the_rows_their_keys(stage: Stage) -> None:
    await stage.resize((80, 24))
    await enter(stage)
    await ask(stage, "from slowest")
    await stage.see("latency_ms method", "tools/call", "search")
    await stage.see("⏎ open", "/ edit", "o row", "v views", "y copy", "? help", "q quit")


async def a_new_result_takes_the_focus_and_keys_lead_back_to_the_box(stage: Stage) -> None:
    await enter(stage)
    editor, rows = screen_of(stage).query_one(Editor), screen_of(stage).table
    await stage.see("⏎ run")
    assert editor.size.height == 1
    for key in ("slash", "i", "tab", "escape"):
        await ask(stage, "select 1 as n")
        await stage.until(lambda: rows.has_focus)
        await stage.see("/ edit", "y copy")
        await stage.press(key)
        assert editor.has_focus, key
    # The box keeps the focus if there is nothing to go to, or if the user has typed on.
    await ask(stage, "select 1 as n where false")
    await stage.see("0 rows")
    assert editor.has_focus
    stage.app.sql.on_change = None
    await ask(stage, "select 'late' as n")
    await stage.press(*"x")
    screen_of(stage).post_message(SqlReplied())
    await stage.see("late", "1 row ")
    assert editor.has_focus


async def sql_leads_to_a_frame_in_three_keys(stage: Stage) -> None:
    await stage.listed()
    await stage.press("Q", *"from slowest", "enter")
    await stage.until(lambda: screen_of(stage).table.has_focus)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.press("escape")
    await stage.until(lambda: screen_of(stage).table.has_focus)


async def the_place_of_an_error_is_marked_in_the_box_until_the_text_changes(stage: Stage) -> None:
    await enter(stage)
    editor = screen_of(stage).query_one(Editor)
    await ask(stage, "select 'é界' as x,\n metod from calls")
    await stage.see('column "metod" not found')
    assert editor.has_focus
    assert editor.cursor_location == (1, 1)

    def style_of(line: int, text: str) -> str:
        shown = editor.get_line(line)
        start = shown.plain.index(text)
        return " ".join(str(span.style) for span in shown.spans if span.start <= start < span.end)

    assert "underline" in style_of(1, "metod")
    assert "bold" in style_of(0, "select")
    assert style_of(0, "'é界'")
    assert style_of(1, "calls")
    await stage.press("end", "h")
    assert "underline" not in style_of(1, "metod")


async def a_tree_of_tables_inserts_names_and_examples(stage: Stage) -> None:
    await stage.resize((120, 30))
    await enter(stage)
    screen, editor = screen_of(stage), screen_of(stage).query_one(Editor)
    await stage.press(*"select 1", "tab")
    assert screen.table.has_focus
    await stage.press("tab")
    assert screen.schema.has_focus
    await stage.press("tab")
    editor.set_text("select")
    await stage.press("end", "ctrl+j", "tab", "v")
    at = [relation.name for relation in stage.app.sql.relations].index("latency")
    screen.schema.go(at)
    assert screen.schema.size.width < 32
    await stage.press("right")
    await stage.see("▾ latency ", "p95_ms", "double", "example")
    assert "…" not in stage.text().partition("▾ latency")[2].partition("│")[0]
    await stage.press("down", "enter")
    assert editor.has_focus
    assert editor.text == "select\nserver"
    await stage.press("end", "space", "tab", "v", "left")
    assert "▾" not in stage.text()
    assert screen.schema.cursor == at
    await stage.press("right")
    screen.schema.go(at + 1 + len(stage.app.sql.relations[at].columns))
    await stage.press("enter")
    assert editor.text == stage.app.sql.relations[at].example
    await stage.resize((119, 30))
    assert not screen.schema.display


async def a_capture_has_its_short_name_in_the_rows_and_its_file_in_the_row_in_full(stage: Stage) -> None:
    await enter(stage)
    await ask(stage, "select capture, request from calls limit 1")
    await stage.see("20261121T101502Z-4f2a ")
    await stage.press("o")
    await stage.see("20261121T101502Z-4f2a.mcpcap")


async def tab_completes_and_up_goes_back(stage: Stage) -> None:
    await enter(stage)
    editor = screen_of(stage).query_one(Editor)
    await stage.press(*"FROM laten", "tab")
    assert editor.text == "FROM latency"
    await stage.see("latency_histogram")
    await stage.press("ctrl+j", *"where me", "tab")
    assert editor.text.startswith("FROM latency\nwhere me")
    await stage.see("method")
    await stage.press("up", "up")
    assert editor.text == "select 'of yesterday'"
    await stage.press("down")
    assert editor.text.startswith("FROM latency\n")
    # Help has a key of its own in the box.
    await stage.see("F1 help")
    await stage.press("f1")
    await stage.see("help: sql")
    await stage.press("escape")
    # Where a keyword is due, keywords come first; after an error, all of the text is deleted.
    editor.set_text("fr")
    await stage.press("tab")
    await stage.until(lambda: re.search(r"^ *from .*frames", stage.text(), re.MULTILINE | re.IGNORECASE))
    editor.set_text("select nothing_like_it from frames")
    await stage.press("enter")
    await stage.until(lambda: screen_of(stage).client.error and editor.cursor_location == (0, 7))
    await stage.press("ctrl+u")
    assert not editor.text
    editor.set_text("FROM latency\nwhere method is not null")
    await stage.press("enter")


@pytest.mark.costly("some forty statements, one of them with 8,000 columns and one that fills the memory")
def test_questions_and_their_answers_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remember_statement("select 'of yesterday'")
    acts: tuple[Act, ...] = (
        tab_completes_and_up_goes_back,  # first, so that yesterday's query is the latest one
        it_shows_what_there_is_to_ask_and_takes_an_example,
        a_row_leads_to_its_frame_and_escape_back_to_the_rows,
        what_is_wrong_is_told_below_with_the_answer_before_and_a_query_can_be_stopped,
        hostile_names_and_values_are_only_text,
        an_example_takes_the_place_of_what_is_typed_and_loses_none_of_it,
        a_new_result_takes_the_focus_and_keys_lead_back_to_the_box,
        sql_leads_to_a_frame_in_three_keys,
        the_place_of_an_error_is_marked_in_the_box_until_the_text_changes,
        a_tree_of_tables_inserts_names_and_examples,
        a_capture_has_its_short_name_in_the_rows_and_its_file_in_the_row_in_full,
        an_answer_its_rows_and_its_columns,
        all_rows_are_exported_as_they_are_and_those_that_are_shown_copied_so_that_nothing_acts,
        an_answer_of_thousands_of_columns_takes_a_moment,
        a_row_in_full_is_all_of_it,
        in_eighty_columns_the_slowest_calls_have_names_and_the_rows_their_keys,
        an_answer_is_bounded_and_says_so,  # last, as the memory that it takes is not available to later ones
    )
    play_each(acts, captured(tmp_path))
    assert past_statements()[0] == "select 'of yesterday'"
    head, first, *_ = (tmp_path / "query.csv").read_text().split("\n")
    assert head == "formula,nothing,took_ns,escape"
    assert first == '"\'=1+1",,1500000,"\x1bx"'
    assert (tmp_path / "query.csv").stat().st_mode & 0o777 == 0o600
    lines_ = (tmp_path / "y.jsonl").read_text().splitlines()
    assert len(lines_) == 10_002
    assert json.loads(lines_[0]) == {"formula": "=1+1", "nothing": None, "took_ns": 1500000, "escape": "\x1bx"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["query.csv", "y.jsonl"]


def children_before() -> set[int]:
    """This process's children before a test starts a worker: some may still be ending, and one forks workers."""
    client = SqlClient()
    client.start()
    wait_until(lambda: client.relations)
    client.close()
    return set(children(os.getpid()))


def test_a_killed_process_is_told_of_and_the_next_question_starts_another(tmp_path: Path) -> None:
    before = children_before()
    client = SqlClient()
    try:
        client.run_query([captured(tmp_path)], RUNAWAY)
        wait_until(lambda: client.relations)
        (pid,) = set(children(os.getpid())) - before
        wait_until(lambda: children(pid))
        jails = children(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not client.is_busy)
        assert "has ended" in client.error[0]
        wait_until(lambda: not any(map(is_alive, jails)))
        client.run_query([captured(tmp_path)], "select 42 as x")
        wait_until(lambda: not client.is_busy)
        assert client.result is not None
        assert client.result.rows == [["42"]]
    finally:
        client.close()
    wait_until(lambda: not set(children(os.getpid())) - before)


def test_a_question_is_stopped_however_early_and_its_process_stays(tmp_path: Path) -> None:
    before = children_before()
    client, capture = SqlClient(), captured(tmp_path)
    try:
        pids = set()
        for number in range(10):
            client.run_query([capture], RUNAWAY)
            if number % 2:
                client.run_query([capture], RUNAWAY)  # this stops the one before
            assert client.stop()
            wait_until(lambda: not client.is_busy, "the question to be stopped")
            assert list(client.error) == ["stopped"]
            pids |= set(children(os.getpid())) - before
            client.run_query([capture], f"select {number} as x")
            wait_until(lambda: not client.is_busy, "the next question to be answered")
            assert client.result is not None
            assert client.result.rows == [[f"{number}"]]
        assert len(pids) == 1
    finally:
        client.close()


ASKING = """
import sys, time
from pathlib import Path
from mcpproxy.sql.client import SqlClient
client = SqlClient()
client.run_query([Path(sys.argv[1])], sys.argv[2])
while not client.relations: time.sleep(0.01)
print("asked", "duckdb" in sys.modules, flush=True)
time.sleep(600)
"""


def test_it_dies_with_the_screen_however_that_ends_and_that_loads_no_database(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKING, str(captured(tmp_path)), RUNAWAY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked False\n"
        (pid,) = children(process.pid)
        wait_until(lambda: children(pid))
        (jail,) = children(pid)
        process.kill()
    wait_until(lambda: not is_alive(pid) and not is_alive(jail))
