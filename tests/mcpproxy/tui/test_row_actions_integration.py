"""Rows can be marked and noted in a file next to the capture, copied without harm, and exported."""

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
from mcpproxy.wording.resending import PostedMessage, curl_command, stdin_command
from tests.captures.samples import CAPTURE, header
from tests.examples import examples
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.stage import END, Stage, captured, conversation, frame_record, play, record

EVIL = "it's $(touch EVIL) `touch EVIL`; touch EVIL\n\x1b]52;c;x\x07 %s %n \\n \u202e € !x ~ & | > EVIL"


async def noted(stage: Stage, note: str) -> None:
    """Write a note on the row at the cursor."""
    await stage.press("M")
    await stage.until(lambda: isinstance(stage.app.screen, LineScreen))
    await stage.press("ctrl+u", *(one if one != " " else "space" for one in note), "enter")


class TestMarks:
    """The file next to the capture that holds marks and notes."""

    @pytest.mark.costly("marks and notes in two captures and two widths")
    def test_rows_are_marked_noted_found_again_and_asked_for(self, tmp_path: Path) -> None:
        path, other = captured(tmp_path), captured(tmp_path, "other")
        beside = path.with_name("20261121T101502Z-4f2a.marks.json")
        marks_path(other).write_text('{"not": "ours"}')

        async def act(stage: Stage) -> None:
            await stage.open("library")
            assert "◆" not in stage.text()
            await stage.press("down", "m")
            await stage.see("◆ +0.002", "1 marked")
            await stage.press("down", "down")
            await noted(stage, "why now")
            await stage.see("◆ +0.004", 'why now · {"n":1}', "2 marked")
            await stage.press("g", "apostrophe")
            assert stage.traffic.entry == 2
            await stage.press("apostrophe")
            assert stage.traffic.entry == 4
            await stage.press("apostrophe")
            assert stage.traffic.entry == 2
            await stage.press("m")
            await stage.until(lambda: stage.text().count("◆") == 1)
            assert json.loads(beside.read_text()) == {
                "marks": 1,
                "capture": CAPTURE,
                "rows": [{"seq": 4, "note": "why now"}],
            }
            assert beside.stat().st_mode & 0o777 == 0o600
            # Opening the capture again reads the file.
            await stage.back()
            await stage.open("library")
            await stage.see("◆ +0.004", "why now")
            await stage.press("down", "down", "down", "m")
            await stage.see("to remove the note and the mark, clear the note (M)", "◆ +0.004")
            await noted(stage, "")
            await stage.until(lambda: "◆" not in stage.text())
            assert "marked" not in stage.text()
            assert not beside.exists()
            await stage.press("g", "down", "m", "down", "down", "down", "down", "m")
            await stage.until(lambda: stage.text().count("◆") == 2)
            await stage.press("slash", *"has:mark method:tools/*", "enter")
            await stage.see("1 of 16 frames")
            assert list(stage.traffic.listing.entries()) == [6]
            await stage.press("escape", "escape")
            # In a narrow terminal, a note uses the free space, and a mark does not cut the clock.
            await stage.resize((77, 24))
            for row, note in ((1, "why"), (2, "why does it come so late here"), (3, "the first call of all")):
                stage.traffic.table.go(row)
                await noted(stage, note)
                await stage.see(note)
            await stage.see("◆ +0.002")
            await stage.see("notifications/initialized  why does it come so late here", "call search")
            await stage.press("t", "t")
            await stage.until(lambda: re.search(r"◆ \d\d:\d\d:\d\d\.\d\d ", stage.text()))
            # A mark that cannot be saved is reported, and nothing is lost.
            await stage.back()
            await stage.open("other")
            await stage.press("m")
            await stage.see("marks.json")
            assert "◆" not in stage.text()

        play(act, path, other, size=(140, 30))
        assert marks_path(other).read_text() == '{"not": "ours"}'

    @pytest.mark.costly("the first two commands of a process that has to load the program")
    def test_commands_know_no_marks(self, tmp_path: Path) -> None:
        for command in ("show", "check"):
            done = mcpproxy(command, "--filter", "not has:mark", str(captured(tmp_path)))
            assert done.returncode == 2
            assert b"has:mark" in done.stderr or b"marks" in done.stderr


def copied_file(home: Path) -> Path:
    """The only file with copied text, which only the user can read."""
    (path,) = (home / "state/mcpproxy").glob("*copied*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


class TestCopying:
    """What is copied, and that it has no effect where it is pasted."""

    def test_a_form_is_chosen_and_said_and_goes_to_the_clipboard_or_to_a_private_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = captured(tmp_path)
        large = b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * 80_000 + b'"}'
        heavy = record(
            tmp_path / "heavy" / "a.mcpcap", [("header", header(name="heavy")), frame_record("c2s", large), END]
        )

        async def act(stage: Stage) -> None:
            await stage.open("library")
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
            # A message does not cover a choice or another screen.
            for key, shown in (("c", "copy as"), ("M", "Enter accepts"), ("L", "latency")):
                await stage.press("c", "j")
                await stage.see("copied")
                await stage.press(key)
                await stage.see(shown)
                assert "copied" not in stage.text()
                await stage.press("escape")
                assert isinstance(stage.app.screen, TrafficScreen)
            # A capital letter writes a file, and the next replaces it.
            await stage.resize((100, 24))
            clipboard = stage.app.clipboard
            for key, word in (("J", "JSON"), ("R", "raw text")):
                await stage.press("c")
                await stage.see("a capital letter writes a file")
                await stage.press(key)
                await stage.see(f"wrote {word}")
            assert b"\n" not in copied_file(tmp_path).read_bytes()[:-1]
            # A text that is too large for the clipboard goes to a file, which the choice says.
            await stage.back()
            await stage.open("heavy")
            await stage.press("c")
            await stage.see("unsafe in a shell; to a file")
            await stage.press("r")
            await stage.see("wrote raw text")
            assert copied_file(tmp_path).read_bytes() == large + b"\n"
            # If the terminal has no clipboard, every form goes to the file.
            monkeypatch.setenv("TERM", "linux")
            await stage.back()
            await stage.open("library")
            await stage.press("c", "r")
            await stage.see("no clipboard here: wrote raw text")
            assert stage.app.clipboard == clipboard, "only forms in small letters go there"

        play(act, path, heavy, size=(80, 24))
        assert copied_file(tmp_path).read_bytes().startswith(b'{"jsonrpc"')

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
        line = stdin_command([raw], ["cat"])
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
        line = stdin_command([raw], ["sh", "-c", script, "x", *words])
        assert line.isprintable()
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
        assert done.stdout == raw + b"\n" + "".join(f"{word}|" for word in words).encode()

    def test_words_of_the_command_line_and_of_http_are_quoted(self, tmp_path: Path) -> None:
        words = ["sh", "-c", 'for one in "$@"; do printf "<%s>" "$one"; done', "x", EVIL.rstrip(), "A=b"]
        line = stdin_command([b"x"], words)
        done = subprocess.run(["sh", "-c", line], capture_output=True, cwd=tmp_path, check=True)
        assert done.stdout.decode() == f"<{EVIL}><A=b>"
        cookie = ("Cookie", "a=hmac:0011223344556677")
        fields = [("x-evil", EVIL), ("@file", "x"), ("bad name", "x"), cookie, ("host", "h")]
        posted = PostedMessage("POST", f"/m?a='{EVIL}&k=hmac:0011223344556677", fields, EVIL.encode())
        made = curl_command(f"https://h/{EVIL}", posted)
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


def test_a_filter_is_completed_and_what_it_selects_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = captured(tmp_path)
    damaged = record(tmp_path / "damaged" / "a.mcpcap", [*conversation(4), END])
    data = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*data[:6], b"rubbish\x1b\n", *data[6:]]))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def act(stage: Stage) -> None:
        await stage.open("library")
        box = stage.app.screen.query_one(FilterBox)
        await stage.press("slash", *"me", "tab")
        assert box.value == "method:"
        await stage.press("tab")
        await stage.see("method:initialize  method:tools/call")
        await stage.press("t", "tab", *" na", "tab", "s", "tab", *" or h", "tab", "e", "tab")
        assert box.value == "method:tools/call name:search or has:error"
        await stage.press("enter")
        await stage.see("of 16 frames")
        await stage.press("slash", "ctrl+u", *"kind:error", "enter")
        await stage.see("2 of 16 frames")
        await stage.press("e")
        await stage.see("export 2 rows to", "library-20261121T101502Z-4f2a.jsonl", ".md Markdown", ".html report")
        assert ".har" not in stage.text()
        await stage.press("enter")
        await stage.see("exported 2 rows to")
        # What is wrong is said below the name, which stays.
        await stage.press("e", "enter")
        await stage.see("library-20261121T101502Z-4f2a.jsonl exists", "export 2 rows to")
        await stage.press(*"/none/such/x", "enter")
        await stage.see("cannot write /none/such/x.jsonl: No such file", "export 2 rows to")
        await stage.press("ctrl+u", *"~nobody-is-called-so/x", "enter")
        await stage.see("cannot write ~nobody-is-called-so/x")
        await stage.press("ctrl+u", *"x.txt", "enter")
        await stage.see("the name must end in .jsonl, .json, .ndjson, .md or .html")
        await stage.press("escape")
        (made,) = (tmp_path / "here").iterdir()
        assert made.stat().st_mode & 0o777 == 0o600
        shown_lines = mcpproxy("show", "--json", "--filter", "kind:error", str(path)).stdout.decode()
        assert made.read_text() == shown_lines
        await stage.back()
        await stage.open("damaged")
        await stage.press("e", "ctrl+u", *"all.json", "enter")
        await stage.see("exported")
        await stage.press("x", "e", "ctrl+u", *"pairs.jsonl", "enter")
        await stage.see("rows to pairs.jsonl")

    play(act, path, damaged)
    everything = [json.loads(line) for line in (tmp_path / "here/all.json").read_text().splitlines()]
    assert {line["rec"] for line in everything} == {"frame", "stderr", "damage", "close"}
    pairs = [json.loads(line) for line in (tmp_path / "here/pairs.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in pairs].count("request") == 6
    assert len(pairs) == 11
