"""On a real terminal: no byte of hostile traffic acts on it, any size works, and its modes are restored at the end."""

import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.captures.samples import header
from tests.mcpproxy.tui.hostile import EVIL, HOSTILE, hostile
from tests.mcpproxy.tui.stage import END, captured, frame_record, record, sizes
from tests.mcpproxy.tui.terminals import DEADLINE_S, Terminal, acts, children, is_running, starting, terminal
from tests.mcpproxy.tui.test_key_queue_integration import TYPED


@pytest.mark.costly("every view of every hostile text is drawn on a terminal")
def test_no_byte_of_hostile_traffic_acts_on_the_terminal(tmp_path: Path) -> None:
    hostile(tmp_path)
    captured(tmp_path, stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path), size=(100, 30)) as shown:
        shown.until(lambda: "2 recorded" in shown.text())
        shown.press("\r")
        shown.until(lambda: "frames" in shown.text())
        for keys in ("G", "\r", "2", "3", "4", "5", "6", "7", "1", "\t", "g"):
            shown.press(keys)
        for _ in range(len(HOSTILE) * 5 // 3):
            os.write(shown.ours, b"jjj")
            shown.listen(0.02)
        for keys in (
            "2",
            "k",
            "k",
            "x",
            "p",
            "/",
            "\x1b[200~" + HOSTILE[0].replace("\x1b", "") + HOSTILE[8] + "\x1b[201~",
            "\x1b",
        ):
            shown.press(keys)
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
    assert acts(shown.heard) == []
    for sign in (b"]52;", b"]0;EVIL", b"]8;", b"PEVIL", b"\xc2\x9b", b"\xc2\x9d", "\u202e".encode(), "\u200b".encode()):
        # Never after the escape character that would make it act; as plain text after an escape of mcpproxy it is fine.
        assert b"\x1b" + sign not in shown.heard
        assert sign not in shown.heard or sign[0] < 0x80
    assert shown.heard.count("\u0301".encode()) < 9 * shown.heard.count(b"e")


@pytest.mark.costly("the rows of every finding are drawn on a terminal")
def test_no_finding_about_hostile_traffic_acts_on_the_terminal(tmp_path: Path) -> None:
    # Rules quote what they report: ids, names, methods, places in a message.
    path = hostile(tmp_path)
    with terminal(tmp_path, str(path), size=(100, 30)) as shown:
        shown.until(lambda: "finding" in shown.text())
        shown.press("7")
        for _ in range(len(HOSTILE) * 5 // 3):
            os.write(shown.ours, b"nnn")
            shown.listen(0.02)
        shown.pass_over()
        shown.press("F")
        shown.until(lambda: "records checked" in shown.text())
        shown.press("g")
        seen = ""
        for _ in range(15):
            os.write(shown.ours, b"j" * 10)
            shown.listen(0.02)
            seen += shown.text()
        assert EVIL in seen
        for keys in ("r", "\x1b", "\r", "n", "F", "/", "\x1b[200~" + HOSTILE[8] + "\x1b[201~"):
            shown.press(keys)
        shown.until(lambda: "filter:" in shown.text(), "the box with what was pasted")
        shown.press("\x1b")
        # Escape and a letter that come at once would be one key.
        shown.until(lambda: "filter:" not in shown.text(), "the box to be gone")
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
    assert acts(shown.heard) == []
    for sign in (b"]52;", b"]0;EVIL", b"]8;", b"PEVIL", b"\xc2\x9b", b"\xc2\x9d", "\u202e".encode(), "\u200b".encode()):
        assert b"\x1b" + sign not in shown.heard
        assert sign not in shown.heard or sign[0] < 0x80


def test_unchanged_cells_are_not_drawn_again(tmp_path: Path) -> None:
    # The list of sessions lies below, and would draw over the screen on top.
    captured(tmp_path, calls=600)
    captured(tmp_path, name="older", stamp="20261120T101502Z-4f2b")
    with terminal(tmp_path, str(tmp_path), size=(140, 40)) as shown:
        shown.until(lambda: "2 recorded" in shown.text())
        shown.press("\rF")
        shown.until(lambda: re.search(r"all 1,\d\d\d records checked", shown.text()))
        shown.press("\x1b")
        shown.until(lambda: re.search(r"1,\d\d\d frames", shown.text()))
        shown.listen(1.5)
        before = len(shown.heard)
        shown.press("j")
        shown.until(lambda: len(shown.heard) > before)
        shown.listen(1.5)
        assert len(shown.heard) - before < 4000, "two rows have changed; a screenful is 20,000 bytes"


def test_captures_that_begin_below_a_folder_come_in(tmp_path: Path) -> None:
    path = captured(tmp_path)
    with terminal(tmp_path, str(path), str(tmp_path), size=(100, 30)) as shown:
        shown.until(lambda: "frames" in shown.text())
        shown.press("\x1b")
        shown.until(lambda: "1 recorded" in shown.text())
        captured(tmp_path, name="begun later", stamp="20261121T101503Z-4f2b")
        shown.until(lambda: "2 recorded" in shown.text() and "begun later" in shown.text())


def test_a_kill_of_the_screen_ends_the_process_that_runs_the_rules(tmp_path: Path) -> None:
    path = captured(tmp_path, calls=300)
    with terminal(tmp_path, str(path)) as shown:
        shown.until(lambda: children(shown.process.pid))
        (worker,) = children(shown.process.pid)
        shown.process.kill()
        shown.until(lambda: not is_running(worker))


@pytest.mark.parametrize("size", sizes((1, 1), soak=[(2, 2), (20, 5), (80, 24), (200, 60)]))
def test_any_size_is_drawn_and_left(tmp_path: Path, size: tuple[int, int]) -> None:
    path = captured(tmp_path)
    with terminal(tmp_path, str(path), size=size) as shown:
        shown.until(lambda: b"\x1b[?1049h" in shown.heard)
        for keys in ("j", "\r", "\t", "x", "?", "\x1b"):
            shown.press(keys)
        assert shown.process.poll() is None
        shown.press("\x1b")
        while shown.process.poll() is None:
            # On a busy machine, a key may be read together with the escape before it, and then stands for another key.
            shown.press("q")
        assert shown.process.returncode == 0


def test_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    path = captured(tmp_path)
    with terminal(tmp_path, str(path), is_cold=True) as shown:
        shown.until(lambda: "call search" in shown.text())
        assert shown.after() != shown.before
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.after() == shown.before
        for mode in (b"1049", b"1000", b"1003", b"2004", b"25"):
            switched = re.findall(rb"\x1b\[\?" + mode + rb"([hl])", shown.heard)
            assert switched
            assert switched[-1] == (b"h" if mode == b"25" else b"l"), mode


@pytest.mark.costly("all that marks a place without colours, on a terminal")
def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    path = captured(tmp_path)
    with terminal(tmp_path, str(path), more={"NO_COLOR": "1"}) as shown:
        shown.until(lambda: "call search" in shown.text())
        # On the terminal's own background, the cursor is shown in reverse, in the list, the detail and the filter.
        shown.until(lambda: {cell.reverse for cell in list(shown.screen.buffer[2].values())[:70]} == {True})
        shown.press("\r")
        shown.until(lambda: "1 text" in shown.text())
        tabs = next(row for row, line in enumerate(shown.screen.display) if "1 text" in line)
        shown.press("2")
        shown.until(lambda: shown.screen.buffer[tabs + 1][1].reverse)
        shown.until(lambda: shown.screen.buffer[2][4].underscore and not shown.screen.buffer[2][4].reverse)
        shown.press("\t/")
        shown.until(lambda: "esc cancel" in shown.text())
        shown.press("has")
        shown.until(
            lambda: any(cell.reverse for cell in list(shown.screen.buffer[shown.screen.lines - 2].values())[:16])
        )
        shown.press("\x1b")
        shown.until(lambda: "esc cancel" not in shown.text())
        shown.press("\x10")
        shown.until(lambda: "what to do" in shown.text())
        shown.press("\x1b")
        shown.until(lambda: "what to do" not in shown.text())
        shown.press("q")
        shown.until(lambda: shown.process.poll() is not None)
    drawn = {int(one or 0) for found in re.findall(rb"\x1b\[([0-9;]*)m", shown.heard) for one in found.split(b";")}
    assert {7, 39, 49} <= drawn
    assert [one for one in drawn if 30 <= one < 39 or 40 <= one < 49 or one >= 90] == []


MORE = [("/session:2", "\n filter session:2 "), ("/id:2\rMquite\r", "◆ quite"), ("cq/quit", "\n filter quit ")]
PASTED = ("/\x1b[200~quiet\x1b[201~e", "\n filter quiete ")
"""Keys of which some arrive as pasted text."""


@pytest.mark.parametrize(
    "typed",
    [[PASTED, TYPED[-1]], pytest.param([*TYPED, *MORE, PASTED], marks=pytest.mark.soak)],
    ids=["some", "all"],
)
def test_what_is_typed_at_once_goes_where_the_keys_before_lead(tmp_path: Path, typed: list[tuple[str, str]]) -> None:
    with terminal(tmp_path, str(captured(tmp_path)), size=(140, 24)) as shown:
        for keys, seen in typed:
            shown.until(lambda: "call search" in shown.text())
            assert seen not in shown.text(), f"before {keys!r}"
            os.write(shown.ours, f"gj\r\t{keys}".encode())
            shown.until(lambda: seen in shown.text(), f"{seen!r} after {keys!r}")  # noqa: B023 - asked at once
            assert shown.process.poll() is None, keys
            # Go back to the list, and open the capture again, so that nothing is open or filtered.
            while "1 recorded" not in shown.text():
                shown.press("\x1b")
            shown.press("\r")


@pytest.mark.parametrize(
    "junk",
    [
        b"\x80" + b"\x1b[M\xff\xff\xff" + b"\x1b[1:6A" + b"\x1b[1114112u",
        pytest.param(b"\x1b[200~\x00\xff\xfe\x1b[201~", marks=pytest.mark.soak),
    ],
    ids=["junk", "binary paste"],
)
def test_bytes_that_are_no_keys_are_ignored(tmp_path: Path, junk: bytes) -> None:
    with terminal(tmp_path, str(captured(tmp_path)), size=(140, 24)) as shown:
        shown.until(lambda: "call search" in shown.text())
        os.write(shown.ours, junk + b"?")
        shown.until(lambda: "filter language" in shown.text(), "the help")
        os.write(shown.ours, b"/\xe9")
        shown.listen()
        # A character comes in halves.
        os.write(shown.ours, b"zoom\xc3")
        shown.listen()
        os.write(shown.ours, b"\xa9")
        shown.until(lambda: "\ufffdzoomé" in shown.text())
        shown.press("\x03")
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.process.returncode == 0
        assert shown.after() == shown.before
        assert b"Traceback" not in shown.heard


FAULTY = """
import sys
from mcpproxy.__main__ import main
from mcpproxy.tui.terminal_input import TerminalDriver
from mcpproxy.tui.screens.help import HelpScreen

def fail(self, *event):
    secret = "s3cret"
    raise KeyError(secret)

if "reader" in sys.argv:
    process_message = TerminalDriver.process_message
    def read(self, event):
        fail(self) if getattr(event, "key", "") == "question_mark" else process_message(self, event)
    TerminalDriver.process_message = read
else:
    HelpScreen.compose = fail
del sys.argv[1]
sys.exit(main())
"""
"""`mcpproxy`, with a fault at `?`: in the thread that reads keys, or in a screen."""


@pytest.mark.parametrize("part", ["reader", "screen"])
def test_a_fault_is_one_line_without_traffic(tmp_path: Path, part: str) -> None:
    program = (sys.executable, "-P", "-c", FAULTY, part)
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm-256color", "PYTHONPATH": os.getcwd()}
    shown = Terminal([str(captured(tmp_path))], environment, (100, 24), program)
    try:
        shown.until(lambda: "call search" in shown.text())
        shown.press("?")
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.process.returncode == 2
        assert shown.after() == shown.before
        assert b"s3cret" not in shown.heard
        assert re.search(
            rb"\?1049l.*mcpproxy: tui ended because of a fault[^\n]*KeyError in [^\n]*\n", shown.heard, re.DOTALL
        )
        assert b"Traceback" not in shown.heard
    finally:
        shown.close()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    path = captured(tmp_path)
    with terminal(tmp_path, str(path)) as shown:
        shown.until(lambda: "call search" in shown.text())
        shown.process.send_signal(number)
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.process.returncode == 128 + number
        assert shown.after() == shown.before
        assert b"\x1b[?1049l" in shown.heard
        assert b"Traceback" not in shown.heard


@pytest.mark.parametrize(
    "number",
    [signal.SIGQUIT, *(pytest.param(other, marks=pytest.mark.soak) for other in (signal.SIGUSR1, signal.SIGALRM))],
)
def test_a_signal_that_is_no_request_ends_it_as_such_and_the_terminal_is_as_it_was(
    tmp_path: Path, number: signal.Signals
) -> None:
    with terminal(tmp_path, str(captured(tmp_path))) as shown:
        shown.until(lambda: "call search" in shown.text())
        shown.process.send_signal(number)
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.process.returncode == -number
        assert shown.after() == shown.before
        assert b"\x1b[?1049l" in shown.heard
        assert b"Traceback" not in shown.heard


def test_a_signal_ends_it_where_the_terminal_takes_nothing_more(tmp_path: Path) -> None:
    with terminal(tmp_path, str(captured(tmp_path))) as shown:
        shown.until(lambda: "call search" in shown.text())
        # Stop the output as Ctrl-S does, so that drawing blocks.
        termios.tcflow(shown._theirs, termios.TCOOFF)
        os.write(shown.ours, b"?\x1b" * 40)
        shown.process.send_signal(signal.SIGTERM)
        assert shown.process.wait(DEADLINE_S) == 128 + signal.SIGTERM
        shown.listen()
        assert shown.after() == shown.before


def test_it_ends_when_the_terminal_is_gone_and_no_signal_tells(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm-256color"}
    shown = Terminal([str(captured(tmp_path))], environment, (80, 24), start=starting())
    try:
        shown.until(lambda: "call search" in shown.text())
        os.close(shown.ours)
        assert shown.process.wait(DEADLINE_S) == 128 + signal.SIGHUP
    finally:
        shown.process.kill()
        shown.process.wait()
        os.close(shown._theirs)


@pytest.mark.parametrize(
    ("more", "words"), [({"TERM": "dumb"}, "TERM=dumb"), ({}, "needs a terminal")], ids=["dumb", "no terminal"]
)
def test_where_nothing_can_be_drawn_it_says_what_to_use(tmp_path: Path, more: dict[str, str], words: str) -> None:
    path = captured(tmp_path)
    if more:
        with terminal(tmp_path, str(path), more=more, is_cold=True) as shown:
            shown.until(lambda: shown.process.poll() is not None)
            shown.listen()
            assert shown.process.returncode == 2
            assert words in shown.heard.decode()
            assert b"\x1b" not in shown.heard
        return
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "tui", str(path)], capture_output=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert done.stdout == b""


def test_impossible_requests_are_reported_before_anything_is_drawn(tmp_path: Path) -> None:
    with terminal(tmp_path, "*", is_cold=True) as shown:
        shown.until(lambda: shown.process.poll() is not None)
        shown.listen()
        assert shown.process.returncode == 2
        assert b"there is no capture, folder or server called *" in shown.heard


def test_a_server_without_a_capture_is_waited_for(tmp_path: Path) -> None:
    with terminal(tmp_path, "library") as shown:
        shown.until(lambda: "There is no capture of library yet" in shown.text())
        captured(tmp_path / ".local/share/mcpproxy/captures")
        shown.until(lambda: "1 recorded" in shown.text())


def test_the_errors_of_a_tool_are_four_keys_away_and_the_text_of_a_result_one(tmp_path: Path) -> None:
    place = tmp_path / "recordings"
    captured(place)
    read = [
        ("header", header(name="reads")),
        frame_record("c2s", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}'),
        frame_record(
            "s2c", rb'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"first\n\tsecond"}]}}'
        ),
        END,
    ]
    record(place / "reads" / "20251121T101502Z-4f2a.mcpcap", read)
    with terminal(tmp_path, str(place), "--all", size=(80, 24)) as made:
        made.until(lambda: "library" in made.text() and "reads" in made.text(), "the list of sessions")
        rows = [line.split()[1] for line in made.text().split("\n")[2:4]]
        made.press("j" * rows.index("library") + "\r")
        made.until(lambda: "found 1" in made.text(), "the traffic")
        made.press("!")
        made.until(lambda: "has:failure  3 of 16 frames" in made.text(), "the errors of all tools")
        made.press("+")
        made.until(lambda: "name:search         tool" in made.text(), "the values of the row")
        made.press("\r")
        made.until(lambda: "has:failure name:search  3 of 16 frames" in made.text(), "the errors")
        assert made.text().count("no such page") == 2
        assert "found" not in made.text()
        while "2 recorded" not in made.text():
            made.press("\x1b")
        made.press("g" + "j" * rows.index("reads") + "\r")
        made.until(lambda: "2 frames" in made.text(), "the traffic of the other")
        made.press("j\r")
        made.until(lambda: re.search(r"^ first *$\n^     second", made.text(), re.MULTILINE), "the text")
        made.press("/second\r")
        made.until(lambda: "1 of 1" in made.text(), "a word of it")
        made.press("q")
        made.until(lambda: made.process.poll() is not None)
