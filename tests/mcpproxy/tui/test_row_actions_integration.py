"""What can be done with rows: marked and noted in a file beside the capture, copied without harm, exported."""

import json
import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.marks import marks_path
from mcpproxy.tui.screens.prompts import ChoiceScreen, LineScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.wording.resending import Posted, curl, to_stdin
from tests.captures.samples import CAPTURE, header
from tests.examples import examples
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.stage import END, Stage, captured, conversation, play, record, said

EVIL = "it's $(touch EVIL) `touch EVIL`; touch EVIL\n\x1b]52;c;x\x07 %s %n \\n \u202e € !x ~ & | > EVIL"


class TestMarks:
    """The file beside the capture."""

    def test_a_row_is_marked_noted_and_found_again(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.open()
            assert "◆" not in stage.text()
            await stage.press("down", "m")
            await stage.see("◆+0.002")
            await stage.press("down", "down", "M")
            await stage.until(lambda: isinstance(stage.app.screen, LineScreen))
            await stage.press(*"why now", "enter")
            await stage.see("◆+0.004", "why now")
            await stage.press("g", "apostrophe")
            assert stage.traffic.entry == 2
            await stage.press("apostrophe")
            assert stage.traffic.entry == 4
            await stage.press("apostrophe")
            assert stage.traffic.entry == 2
            await stage.press("m")
            await stage.until(lambda: stage.text().count("◆") == 1)

        play(act, path, size=(140, 30))
        beside = path.with_name("20261121T101502Z-4f2a.marks.json")
        assert json.loads(beside.read_text()) == {
            "marks": 1,
            "capture": CAPTURE,
            "rows": [{"seq": 4, "note": "why now"}],
        }
        assert beside.stat().st_mode & 0o777 == 0o600

        async def again(stage: Stage) -> None:
            await stage.open()
            await stage.see("◆+0.004", "why now")
            await stage.press("down", "down", "down", "m")
            await stage.see("to remove the note and the mark, clear the note (M)", "◆+0.004")
            await stage.press("M")
            await stage.until(lambda: isinstance(stage.app.screen, LineScreen))
            await stage.press("ctrl+u", "enter")
            await stage.until(lambda: "◆" not in stage.text())

        play(again, path, size=(140, 30))
        assert not beside.exists()

    @pytest.mark.costly("two commands are run beside the screen")
    def test_marked_rows_can_be_asked_for(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "m", "down", "down", "down", "down", "m")
            await stage.until(lambda: stage.text().count("◆") == 2)
            await stage.press("slash", *"has:mark method:tools/*", "enter")
            await stage.see("1 of 16 frames")
            assert list(stage.traffic.listing.entries()) == [6]

        play(act, path)
        for command in ("show", "check"):
            done = mcpproxy(command, "--filter", "not has:mark", str(path))
            assert done.returncode == 2
            assert b"has:mark" in done.stderr or b"marks" in done.stderr

    def test_what_cannot_be_kept_is_told_and_nothing_is_lost(self, tmp_path: Path) -> None:
        path = captured(tmp_path)
        marks_path(path).write_text('{"not": "ours"}')

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("m")
            await stage.see("marks.json")
            assert "◆" not in stage.text()

        play(act, path)
        assert marks_path(path).read_text() == '{"not": "ours"}'

    def test_a_note_stands_in_a_narrow_row_too(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "M")
            await stage.until(lambda: isinstance(stage.app.screen, LineScreen))
            await stage.press(*"why", "enter")
            await stage.see("◆+0.002", "  why")

        play(act, captured(tmp_path), size=(80, 24))

    def test_a_note_takes_the_room_that_is_free(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            for row, note in ((2, "why does it come so late here"), (3, "the first call of all")):
                stage.traffic.table.go(row)
                await stage.press("M")
                await stage.press(*(one if one != " " else "space" for one in note), "enter")
                await stage.see(note)
            await stage.see("notifications/initialized  why does it come so late here", "tools/call search")

        play(act, captured(tmp_path), size=(80, 24))

    def test_a_mark_leaves_the_clock_whole(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("m", "t", "t")
            await stage.until(lambda: re.search(r"◆\d\d:\d\d:\d\d\.\d\d ", stage.text()))

        play(act, captured(tmp_path), size=(80, 24))


def copied_file(home: Path) -> Path:
    """The only file with copied text, which only the user can read."""
    (path,) = (home / "state/mcpproxy").glob("*copied*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


class TestCopying:
    """What is copied, and that it does nothing where it is pasted."""

    def test_a_form_is_chosen_and_said(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.open()
            copied = {}
            for key in "jrlc":
                await stage.press("g", "c")
                await stage.until(lambda: isinstance(stage.app.screen, ChoiceScreen))
                await stage.see("copy as", "a JSON line")
                await stage.press(key)
                await stage.see("copied")
                copied[key] = stage.app.clipboard
            assert copied["j"].startswith('{\n  "jsonrpc": "2.0",\n  "id": 0,')
            assert json.loads(copied["r"]) == json.loads(copied["j"]) == json.loads(copied["l"])["message"]
            assert copied["l"] == mcpproxy("show", "--json", str(path)).stdout.decode().splitlines()[1]
            assert copied["c"] == f"{{ printf '%s\\n' {shlex.quote(copied['r'])}; cat; }} | server"
            await stage.press("c", "escape")
            assert isinstance(stage.app.screen, TrafficScreen)

        play(act, path, size=(80, 24))

    def test_a_message_covers_no_choice_and_no_other_screen(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            for key, shown in (("c", "copy as"), ("M", "Enter accepts"), ("L", "latency")):
                await stage.press("c", "j")
                await stage.see("copied")
                await stage.press(key)
                await stage.see(shown)
                assert "copied" not in stage.text()
                await stage.press("escape")

        play(act, captured(tmp_path), size=(80, 24))

    def test_what_is_too_large_is_told(self, tmp_path: Path) -> None:
        large = b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * 80_000 + b'"}'
        path = record(tmp_path / "a.mcpcap", [("header", header()), said("c2s", large), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("c")
            await stage.see("unsafe in a shell; to a file")
            await stage.press("r")
            await stage.see("wrote raw text")

        play(act, path)
        assert copied_file(tmp_path).read_bytes() == large + b"\n"

    def test_where_the_terminal_has_no_clipboard_it_goes_to_a_private_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("c", "r")
            await stage.see("no clipboard here: wrote raw text")
            assert stage.app.clipboard == ""

        monkeypatch.setenv("TERM", "linux")
        play(act, captured(tmp_path), size=(100, 24))
        assert copied_file(tmp_path).read_bytes().startswith(b'{"jsonrpc"')

    def test_a_capital_letter_writes_the_file_and_the_next_replaces_it(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("c")
            await stage.see("a capital letter writes a file")
            for key in ("J", "R"):
                await stage.press(*([] if key == "J" else ["c"]), key)
                await stage.see("wrote " + {"J": "JSON", "R": "raw text"}[key])
            assert stage.app.clipboard == ""

        play(act, captured(tmp_path), size=(100, 24))
        assert b"\n" not in copied_file(tmp_path).read_bytes()[:-1]

    @pytest.mark.parametrize(
        "raw",
        [
            EVIL.encode(),
            b"\xff\xfe\x00'",
            b"-n",
            b"-\x00",
            "\xa0".encode(),
            b"%d%s\\t",
            b"'",
            b"",
            '{"x":"größer €"}'.encode(),
        ],
    )
    def test_a_shell_line_says_exactly_the_message_and_does_nothing_else(self, tmp_path: Path, raw: bytes) -> None:
        line = to_stdin([raw], ["cat"])
        assert line.isprintable()
        done = subprocess.run(["sh", "-c", line], capture_output=True, cwd=tmp_path, check=True)
        assert done.stdout == raw + b"\n"
        assert list(tmp_path.iterdir()) == []

    @examples(10)
    @given(st.binary(max_size=60), st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=3))
    def test_any_bytes_and_any_words_come_through(self, raw: bytes, words: list[str]) -> None:
        # The shell drops line feeds at the end of what it substitutes, and nothing else.
        words = [word.rstrip("\n") for word in words]
        script = 'cat; for one in "$@"; do printf "%s|" "$one"; done'
        line = to_stdin([raw], ["sh", "-c", script, "x", *words])
        assert line.isprintable()
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
        assert done.stdout == raw + b"\n" + "".join(f"{word}|" for word in words).encode()

    def test_words_of_the_command_line_and_of_http_are_quoted(self, tmp_path: Path) -> None:
        words = ["sh", "-c", 'for one in "$@"; do printf "<%s>" "$one"; done', "x", EVIL.rstrip(), "A=b"]
        line = to_stdin([b"x"], words)
        done = subprocess.run(["sh", "-c", line], capture_output=True, cwd=tmp_path, check=True)
        assert done.stdout.decode() == f"<{EVIL}><A=b>"
        fields = {"x-evil": EVIL, "@file": "x", "bad name": "x", "Cookie": "a=hmac:0011223344556677", "host": "h"}
        posted = Posted("POST", f"/m?a='{EVIL}&k=hmac:0011223344556677", fields, EVIL.encode())
        made = curl(f"https://h/{EVIL}", posted)
        fake = tmp_path / "bin" / "curl"
        fake.parent.mkdir()
        fake.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\0" "$one"; done; cat\n')
        fake.chmod(0o700)
        path = f"{fake.parent}:{os.environ['PATH']}"
        assert made.isprintable()
        done = subprocess.run(["sh", "-c", made], capture_output=True, cwd=tmp_path, check=True, env={"PATH": path})
        *arguments, body = done.stdout.decode().split("\0")
        assert body == EVIL
        assert [
            found for found in arguments if found.startswith(("x-", "cookie", "Cookie", "@file", "bad", "host"))
        ] == [
            f"x-evil: {EVIL}",
            "Cookie: a=<A>",
        ]
        assert arguments[4:6] == ["--url", f"http://<SERVER>/m?a='{EVIL}&k=<K>"]
        assert [found.name for found in tmp_path.iterdir()] == ["bin"]


class TestCompletion:
    """Tab in the filter."""

    def test_terms_methods_and_names(self, tmp_path: Path) -> None:
        path = captured(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.open()
            box = stage.app.screen.query_one(FilterBox)
            await stage.press("slash", *"me", "tab")
            assert box.value == "method:"
            await stage.press("tab")
            await stage.see("method:initialize  method:tools/call")
            await stage.press("t", "tab", *" na", "tab", "s", "tab", *" or h", "tab", "e", "tab")
            assert box.value == "method:tools/call name:search or has:error"
            await stage.press("enter")
            await stage.see("of 16 frames")

        play(act, path)


class TestExport:
    """What is with_placeholders, as lines of JSON in a new file."""

    def test_the_filtered_rows_and_nothing_else(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = captured(tmp_path)
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("slash", *"kind:error", "enter")
            await stage.see("2 of 16 frames")
            await stage.press("e")
            await stage.see("export 2 rows as JSON lines to", "library-20261121T101502Z-4f2a.jsonl")
            await stage.press("enter")
            await stage.see("exported 2 rows to")
            await stage.press("e", "enter")
            await stage.see("exists")
            await stage.press("e", "ctrl+u", *"/none/such/x", "enter")
            await stage.see("cannot write", "No such file")
            await stage.press("e", "ctrl+u", *"~nobody-is-called-so/x", "enter")
            await stage.see("cannot write ~nobody-is-called-so/x")
            await stage.press("e", "escape")

        play(act, path)
        (made,) = (tmp_path / "here").iterdir()
        assert made.stat().st_mode & 0o777 == 0o600
        shown_lines = mcpproxy("show", "--json", "--filter", "kind:error", str(path)).stdout.decode()
        assert made.read_text() == shown_lines

    def test_all_rows_exchanges_and_damage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = record(tmp_path / "a.mcpcap", [*conversation(4), END])
        data = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*data[:6], b"rubbish\x1b\n", *data[6:]]))
        monkeypatch.chdir(tmp_path)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("e", "ctrl+u", *"all", "enter")
            await stage.see("exported")
            await stage.press("x", "e", "ctrl+u", *"pairs", "enter")
            await stage.see("rows to pairs")

        play(act, path)
        everything = [json.loads(line) for line in (tmp_path / "all").read_text().splitlines()]
        assert {line["rec"] for line in everything} == {"frame", "stderr", "damage", "close"}
        pairs = [json.loads(line) for line in (tmp_path / "pairs").read_text().splitlines()]
        assert [line["kind"] for line in pairs].count("request") == 6
        assert len(pairs) == 11
