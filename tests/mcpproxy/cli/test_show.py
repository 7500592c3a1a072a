"""`mcpproxy show` as a process: what it prints of whole, damaged, growing and hostile captures, and how it ends."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.reader import Capture
from captures.record import members
from mcpproxy.cli.show import _Json
from tests.captures.samples import WALL_NS, conversation, every_type, frame, header, lines
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started

DEADLINE_S = 30

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}'
CLOSE = ("close", members(ending="server", status=0, totals={}))
MIDDLES = [("header", header()), *(("frame", frame("c2s", CALL % n)) for n in range(1, 6)), CLOSE]


def written(path: Path, whole: list[bytes]) -> Path:
    path.write_bytes(b"".join(whole))
    return path


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Five calls that nobody answers."""
    return written(tmp_path / "five.mcpcap", lines(MIDDLES))


def rows(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


# ---- text


def test_text_is_the_conversation_under_a_heading(capture: Path) -> None:
    done = mcpproxy("show", capture)
    assert (done.returncode, done.stderr) == (0, b"")
    heading, *rest = done.stdout.decode().splitlines()
    assert heading == "files  five.mcpcap"
    assert [re.sub(r" +", " ", line).strip() for line in rest[:2]] == [
        "+0.001 → tools/call #1 add 70 B",
        "+0.002 → tools/call #2 add 70 B",
    ]
    assert "5 requests unanswered" in done.stdout.decode()


@pytest.mark.parametrize(
    ("how", "shown"),
    [("rel", ["+0.001", "+0.002"]), ("delta", ["+0.000", "+0.001"]), ("abs", ["11:06:40.001", "11:06:40.002"])],
)
def test_time_is_told_as_asked(capture: Path, how: str, shown: list[str]) -> None:
    done = mcpproxy("show", "--time", how, capture, TZ="UTC0")
    assert [line.split()[0] for line in done.stdout.decode().splitlines()[1:3]] == shown


def test_limit_prints_only_the_first_lines(capture: Path) -> None:
    shown = mcpproxy("show", "--limit", "2", capture).stdout.decode()
    assert re.findall(r"#\d", shown) == ["#1", "#2"]
    assert "unanswered" not in shown
    assert mcpproxy("show", "--limit", "99", capture).stdout == mcpproxy("show", capture).stdout


def test_tail_prints_only_the_last_lines(capture: Path) -> None:
    shown = mcpproxy("show", "--tail", "3", "--json", capture)
    assert [row["seq"] for row in rows(shown.stdout)] == [4, 5, 6]
    whole = mcpproxy("show", capture).stdout.splitlines()
    end = next(number for number, line in enumerate(whole) if b"unanswered" in line and b"request" in line)
    # What only the end shows stands behind the last lines and is none of them.
    assert mcpproxy("show", "--tail", "4", capture).stdout.splitlines() == [whole[0], *whole[end - 4 :]]


def test_colour_is_for_terminals_and_for_those_who_ask(capture: Path) -> None:
    assert b"\x1b[" not in mcpproxy("show", capture).stdout
    assert b"\x1b[" in mcpproxy("show", "--color", "always", capture).stdout
    assert b"\x1b[" in on_terminal("show", str(capture))
    assert b"\x1b[" not in on_terminal("show", "--color", "never", str(capture))
    assert b"\x1b[" not in on_terminal("show", str(capture), NO_COLOR="1")
    assert b"\x1b[" not in on_terminal("show", str(capture), TERM="dumb")


def test_several_captures_come_one_after_the_other(capture: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.mcpcap", lines([("header", header(name="second")), CLOSE]))
    shown = mcpproxy("show", capture, other).stdout.decode()
    assert shown.index("files  five.mcpcap") < shown.index("\n\nsecond  other.mcpcap")


def test_standard_input_is_a_capture_too(capture: Path) -> None:
    done = mcpproxy("show", "--json", "-", stdin=capture.read_bytes())
    assert done.stdout == mcpproxy("show", "--json", capture).stdout
    assert (done.returncode, done.stderr) == (0, b"")


def test_newest_capture_is_meant_where_none_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "captures/files"
    folder.mkdir(parents=True)
    for day in (1, 3, 2):
        name = folder / f"2026110{day}T000000Z-0000.mcpcap"
        written(name, lines([("header", header(name=f"day-{day}")), CLOSE]))
    shown = mcpproxy("show", MCPPROXY_CAPTURES=str(tmp_path / "captures"), HOME=str(tmp_path)).stdout.decode()
    assert shown.startswith("day-3  20261103T000000Z-0000.mcpcap\n")


# ---- JSON


def test_a_row_of_json_has_the_members_of_its_record_and_two_more(tmp_path: Path) -> None:
    capture = written(tmp_path / "all.mcpcap", every_type())
    shown = rows(mcpproxy("show", "--json", capture).stdout)
    # A giant frame is judged anew, so its verdict and with it the checksum are those of today.
    stored = [
        {
            name: value
            for name, value in record.items()
            if record.get("kind") != "unjudged" or name not in ("kind", "crc")
        }
        for record in map(json.loads, every_type())
    ]
    assert [{name: row[name] for name in record} for row, record in zip(shown, stored, strict=True)] == stored
    assert {name for row, record in zip(shown, stored, strict=True) for name in row.keys() - record} == {
        "at",
        "message",
        "kind",
        "id",
        "crc",
    }


def test_wall_time_in_json_is_utc_to_the_nanosecond(capture: Path) -> None:
    shown = rows(mcpproxy("show", "--json", capture, TZ="Asia/Kolkata").stdout)
    assert WALL_NS == 1_795_000_000 * 10**9
    assert [row["at"] for row in shown[:2]] == ["2026-11-18T11:06:40.000000000Z", "2026-11-18T11:06:40.001000000Z"]


EXACT = [
    b'{"jsonrpc":"2.0","id":1,"result":{"n":123456789012345678901234567890,"e":1.10e+2,"z":-0.0}}',
    b' {"jsonrpc" : "2.0", "id":9007199254740993, "result":{"a":"\\u00e9\\/"} } ',
    b'{"jsonrpc":"2.0","id":"\xc3\xa9","result":[1.0,1e400]}',
]


@pytest.mark.parametrize("raw", EXACT)
def test_message_is_the_text_of_the_frame_to_the_digit(tmp_path: Path, raw: bytes) -> None:
    capture = written(tmp_path / "exact.mcpcap", lines([("header", header()), ("frame", frame("s2c", raw)), CLOSE]))
    output = mcpproxy("show", "--json", capture).stdout
    row = output.split(b"\n")[1]
    assert row.endswith(b',"message":' + raw + b"}")
    assert json.loads(row)["raw"].encode() == raw


AMBIGUOUS = [
    b"no JSON",
    b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}} {"seq":1}',
]


@pytest.mark.parametrize("raw", AMBIGUOUS, ids=range(len(AMBIGUOUS)))
def test_what_readers_disagree_about_has_no_message(tmp_path: Path, raw: bytes) -> None:
    capture = written(tmp_path / "odd.mcpcap", lines([("header", header()), ("frame", frame("s2c", raw)), CLOSE]))
    output = mcpproxy("show", "--json", capture).stdout
    assert "message" not in rows(output)[1]
    assert len(rows(output)) == 3


@given(raw=st.binary(max_size=80) | st.text(max_size=40).map(lambda text: json.dumps({"jsonrpc": text}).encode()))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_row_is_one_line_of_json_whatever_crossed(tmp_path: Path, raw: bytes) -> None:
    raw = raw.replace(b"\n", b" ")
    capture = written(tmp_path / "any.mcpcap", lines([("header", header()), ("frame", frame("s2c", raw)), CLOSE]))
    output = shown_here(capture)
    assert [row["seq"] for row in rows(output)] == [0, 1, 2]


def shown_here(capture: Path) -> bytes:
    """What `show --json` prints, without a process for each example."""
    printer = _Json()
    return "".join(printer.text(row) for item in Capture(capture) for row in printer.feed(item)).encode()


# ---- damage


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """One bit of the third of five calls has flipped."""
    whole = lines(MIDDLES)
    spoiled = bytearray(whole[3])
    spoiled[40] ^= 4
    whole[3] = bytes(spoiled)
    return written(tmp_path / "damaged.mcpcap", whole)


def test_damage_is_told_and_everything_whole_printed_all_the_same(damaged: Path) -> None:
    done = mcpproxy("show", damaged)
    assert done.returncode == 2
    assert re.findall(r"#\d", done.stdout.decode())[:4] == ["#1", "#2", "#4", "#5"]
    assert done.stderr.count(b"\n") == 1
    assert b"damaged" in done.stderr
    assert b"mcpproxy repair" in done.stderr


def test_damage_is_a_row_of_json_of_its_own(damaged: Path) -> None:
    done = mcpproxy("show", "--json", damaged)
    assert done.returncode == 2
    assert [row.get("seq", row["rec"]) for row in rows(done.stdout)] == [0, 1, 2, "damage", 4, 5, 6]


def test_torn_tail_of_a_kill_is_no_damage(tmp_path: Path) -> None:
    whole = b"".join(lines(MIDDLES[:-1]))
    done = mcpproxy("show", written(tmp_path / "torn.mcpcap", [whole[:-20]]))
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.findall(r"→  tools/call #\d", done.stdout.decode())[:4] == [f"→  tools/call #{n}" for n in range(1, 5)]
    assert "not closed" in done.stdout.decode()


NO_CAPTURES = {
    "empty": b"",
    "text": b"hello\n" * 100,
    "newer": lines([("header", members(format=2, capture="x", segment=1))])[0],
}


@pytest.mark.parametrize("name", NO_CAPTURES)
def test_what_is_no_capture_is_one_line_and_exit_2(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / f"{name}.mcpcap", [NO_CAPTURES[name]])
    done = mcpproxy("show", path)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert str(path).encode() in done.stderr


@pytest.mark.parametrize("wrong", ["missing.mcpcap", "folder", "pipe.mcpcap", "no-such-server"])
def test_what_cannot_be_read_is_one_line_and_exit_2(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.mcpcap")
    done = mcpproxy("show", wrong, cwd=tmp_path, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert wrong.encode() in done.stderr


def test_one_bad_capture_among_several_keeps_the_others(capture: Path, tmp_path: Path) -> None:
    done = mcpproxy("show", tmp_path / "missing.mcpcap", capture)
    assert done.returncode == 2
    assert b"#5" in done.stdout


# ---- a reader that goes away


def test_closed_pipe_is_a_silent_end(tmp_path: Path) -> None:
    large = written(tmp_path / "large.mcpcap", lines(conversation(4000, random.Random(7), 600)))
    for arguments in (["--json"], []):
        with started("show", *arguments, large) as process:
            assert process.stdout is not None
            assert process.stdout.read(10)
            process.stdout.close()
            assert process.wait(DEADLINE_S) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
