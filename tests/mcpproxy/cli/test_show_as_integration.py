"""`mcpproxy show --frame N --as` prints what `tui` copies."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from captures.record import members
from tests.captures.samples import frame, header, lines
from tests.harness import DEADLINE_S, ROOT
from tests.mcpproxy.cli.typed import complaints, mcpproxy

CORPUS = ROOT / "tests/corpus/captures"
START = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"it\'s","arguments":{"n":1.0}}}'
ANSWER = '{"jsonrpc":"2.0","id":2,"result":{"text":"\x7f\u202e\x9b0m\\u001b"}}'.encode()


@pytest.fixture
def stdio(tmp_path: Path) -> Path:
    """Frames 1 and 3 begin a session, 4 is a call, 5 its response, and 6 is not JSON; the server is `cat`."""
    path = tmp_path / "stdio.mcpcap"
    said = [("c2s", START), ("s2c", b'{"jsonrpc":"2.0","id":1,"result":{}}'), ("c2s", CALL), ("s2c", ANSWER)]
    said.append(("s2c", b"loaded \x1b[31mred"))
    middles = [("header", header(argv=["cat"])), *(("frame", frame(way, raw)) for way, raw in said)]  # type: ignore[arg-type]
    path.write_bytes(b"".join(lines([*middles, ("close", members(ending="server", status=0, totals={}))])))
    return path


def test_a_message_is_printed_with_its_own_numbers_and_nothing_that_acts(stdio: Path) -> None:
    done = mcpproxy("show", "--frame", "3", "--as", "message", stdio)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == json.loads(CALL)
    assert b'"n": 1.0' in done.stdout
    answer = mcpproxy("show", "--frame", "4", "--as", "message", stdio).stdout
    assert answer.isascii()
    assert json.loads(answer) == json.loads(ANSWER)
    assert mcpproxy("show", "--frame", "5", "--as", "message", stdio).stdout == b"loaded \\x1b[31mred\n"


def test_lines_of_stderr_are_printed_as_they_were_written(tmp_path: Path) -> None:
    """A traceback in several records becomes one text again; what could control a terminal is escaped."""
    path = tmp_path / "stderr.mcpcap"
    said = [b"Traceback (most recent call last):", b'  File "<string>", line 1', b"\x1b[31mValueError: no"]
    made = [("stderr", members(delim="\n", whole=True, size=len(raw), raw=raw.decode())) for raw in said]
    cut = ("stderr", members(delim="", whole=False, size=3, raw="abc"))
    middles = [("header", header()), made[0], ("frame", frame("c2s", CALL)), *made[1:], cut, cut]
    path.write_bytes(b"".join(lines(middles)))

    def printed(frames: str) -> bytes:
        done = mcpproxy("show", "--frame", frames, "--as", "message", path)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert printed("1") == said[0] + b"\n"
    assert printed("3..4") == said[1] + b"\n\\x1b[31mValueError: no\n"
    assert printed("5..6") == b"abcabc\n"
    everything = printed("0..99")
    assert everything.startswith(said[0] + b"\n{\n")
    assert everything.endswith(b"no\nabcabc\n")


def test_a_shell_command_says_the_message_again_in_a_session_of_its_own(stdio: Path) -> None:
    for number in ("3", "4"):  # for a response, this is the command of its request
        done = mcpproxy("show", "--frame", number, "--as", "shell", stdio)
        assert (done.returncode, complaints(done)) == (0, b""), number
        ran = subprocess.run(
            ["sh", "-c", done.stdout], stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S
        )
        said = ran.stdout.splitlines()
        assert (said[0], said[-1], len(said)) == (START, CALL, 3), number


def test_a_curl_command_has_placeholders_for_what_the_capture_does_not_hold(tmp_path: Path) -> None:
    path = shutil.copy(CORPUS / "http.mcpcap", tmp_path)
    rows = [
        json.loads(row) for row in mcpproxy("show", "--json", "--filter", "method:tools/call", path).stdout.splitlines()
    ]
    number = next(str(row["seq"]) for row in rows if row["dir"] == "c2s")
    done = mcpproxy("show", "--frame", number, "--as", "curl", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"curl --globoff --no-buffer --request POST --url https://example.com/mcp ")
    assert b"--header 'authorization: <AUTHORIZATION>'" in done.stdout
    assert b"hmac:" not in done.stdout
    assert done.stderr == "mcpproxy: replace each <…> in the command before you run it\n".encode()
    assert subprocess.run(["sh", "-n", "-c", done.stdout], capture_output=True).returncode == 0


def test_what_cannot_be_printed_so_is_told_with_what_can(stdio: Path, tmp_path: Path) -> None:
    http = shutil.copy(CORPUS / "http.mcpcap", tmp_path)
    frames = [json.loads(row) for row in mcpproxy("show", "--json", http).stdout.splitlines()]
    call = next(row["seq"] for row in frames if row["rec"] == "frame" and row["dir"] == "c2s")
    for words, told in (
        (["--frame", "3", "--as", "curl", stdio], "frame 3 was sent over stdio: use --as shell"),
        (["--frame", str(call), "--as", "shell", http], f"frame {call} was sent over HTTP: use --as curl"),
        (["--frame", "99", "--as", "message", stdio], "there is no frame 99 in"),
        (["--frame", "0", "--as", "message", stdio], "record 0 is not a frame"),
        (["--frame", "3..4", "--as", "shell", stdio], "--as shell takes a single frame, such as --frame 3"),
        (["--frame", "4..3", "--as", "message", stdio], "--frame takes the number of a frame such as 38, or a range"),
        (["--frame", "6..7", "--as", "message", stdio], "none of the records from 6 to 7 is a message"),
        (["--frame", "90..99", "--as", "message", stdio], "none of the records from 90 to 99 is a message"),
        (["--as", "message", stdio], "--as needs --frame N"),
        (["--frame", "3", "--as", "message", "--json", stdio], "--as cannot be combined with --format or --json"),
        (["--frame", "3", "--as", "message", stdio, http], "--as prints a frame of a single capture, not of 2"),
    ):
        done = mcpproxy("show", *words)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
        assert told in done.stderr.decode(), words


def test_no_command_sends_again_what_the_server_said_or_what_is_answered_on_another_stream(
    stdio: Path, tmp_path: Path
) -> None:
    traces = ROOT / "tests/corpus/traces/legacy-sse.ndjson"
    mcpproxy("import", "--from", "trace", traces, "--case", "clean-2025-11-25", "-o", tmp_path / "older")
    (older,) = (tmp_path / "older").glob("*.mcpcap")
    frames = [json.loads(row) for row in mcpproxy("show", "--json", older).stdout.splitlines()]
    call = next(row["seq"] for row in frames if row["rec"] == "frame" and row.get("method") == "tools/call")
    for path, number, form in ((older, call, "curl"), (stdio, 5, "shell")):
        done = mcpproxy("show", "--frame", str(number), "--as", form, path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert f"no command sends frame {number} again" in done.stderr.decode()
