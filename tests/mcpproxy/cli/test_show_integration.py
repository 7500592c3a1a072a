"""`mcpproxy show` as a process: its output for whole, damaged, growing and hostile captures, and its exit codes."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.filter import parse
from analysis.reading import Reading
from captures.record import members
from mcpproxy.cli.show import _JsonPrinter
from tests.analysis.client_captures import TURN, write_codex
from tests.analysis.http_trace import HttpTrace, notification
from tests.analysis.store.capture_writer import CaptureWriter
from tests.captures.samples import WALL_NS, conversation, every_type, frame, header, lines
from tests.examples import examples as so_many
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, started

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}'
CLOSE = ("close", members(ending="server", status=0, totals={}))
MIDDLES = [("header", header()), *(("frame", frame("c2s", CALL % n)) for n in range(1, 6)), CLOSE]


def written(path: Path, whole: list[bytes]) -> Path:
    path.write_bytes(b"".join(whole))
    return path


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Five calls without a response."""
    return written(tmp_path / "five.mcpcap", lines(MIDDLES))


def rows(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def test_the_calls_of_a_turn_are_shown_across_captures(tmp_path: Path) -> None:
    done = mcpproxy("show", "--turns", "--filter", f"turn:{TURN} kind:request", *write_codex(tmp_path))
    assert done.returncode == 0
    assert done.stdout.count(b"turn 0199\xe2\x80\xa6000001 of Codex") == 3
    assert done.stdout.count(b"tools/call") == 5  # one of them again, as unanswered
    assert done.stderr.count(b"in order: mcpproxy query") == 1
    for options in (("--json",), ("--format", "markdown"), ("--frame", "4")):
        refused = mcpproxy("show", "--turns", *options, tmp_path)
        assert (refused.returncode, refused.stdout) == (2, b"")
        assert b"--turns" in refused.stderr


# ---- text


def test_text_is_the_conversation_under_a_heading(capture: Path) -> None:
    done = mcpproxy("show", capture)
    assert (done.returncode, done.stderr) == (0, b"")
    heading, *rest = done.stdout.decode().splitlines()
    assert heading == "files  five.mcpcap"
    assert [re.sub(r" +", " ", line).strip() for line in rest[:2]] == [
        "+0.001 1 → tools/call #1 add 70 B",
        "+0.002 2 → tools/call #2 add 70 B",
    ]
    assert "5 requests unanswered" in done.stdout.decode()


@pytest.mark.parametrize(
    "picks",
    [
        ("--tail", "1"),
        ("--limit", "1"),
        ("--tail", "99", "--limit", "3"),
        ("--filter", "name:late"),
        ("--filter", "method:initialize", "--limit", "1"),
        ("--filter", "name:late", "--tail", "1", "--limit", "1"),
        ("--follow", "--limit", "1"),
        ("--follow", "--tail", "2"),
        ("--follow", "--filter", "name:late"),
    ],
)
def test_the_heading_is_the_same_whatever_is_picked(tmp_path: Path, picks: tuple[str, ...]) -> None:
    talk = CaptureWriter(tmp_path / "twice.mcpcap", "weather")
    talk.handshake()
    talk.handshake(100, "2.0", "another")
    talk.call(200, 7, "late")
    talk.answer(210, 7)
    path = talk.close()
    whole = mcpproxy("show", path).stdout.splitlines()
    assert whole[0] == "weather  2025-06-18  c 1 → weather 1.0  twice.mcpcap".encode()
    shown = mcpproxy("show", *picks, path).stdout.splitlines()
    assert shown[0] == whole[0]
    assert shown[1:]
    assert {*shown[1:]} < {*whole}


@pytest.mark.parametrize("tail", ["2", "3"])
def test_a_tail_counts_lines_although_nobody_has_said_who_talks(capture: Path, tail: str) -> None:
    for follow in ((), ("--follow",)):
        shown = mcpproxy("show", *follow, "--tail", tail, capture).stdout.decode().splitlines()
        numbers = re.findall(r"\+0\.\d+ +(\d+) →.* B$", "\n".join(shown), re.MULTILINE)
        assert numbers == [str(number) for number in range(7 - int(tail), 6)]


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
    # What only the end of the session shows follows the last lines, and does not count as one of them.
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
    # A giant frame is judged again on reading, so its verdict and its checksum differ from the stored ones.
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
    b'{"jsonrpc":"2.0","id":1,"result":{"a":{"b":[{"c":1,"c":2}]}}}',
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


@pytest.mark.parametrize("raw", [raw for raw in AMBIGUOUS if raw.isascii()], ids=str)
def test_last_line_without_its_end_has_no_message_either(tmp_path: Path, raw: bytes) -> None:
    """The missing end is the first rule that the line breaks, and hides the others."""
    last = ("frame", members(dir="s2c", delim="", whole=False, raw=raw.decode()))
    capture = written(tmp_path / "cut.mcpcap", lines([("header", header()), last, CLOSE]))
    row = rows(shown_here(capture))[1]
    assert (row["raw"], "message" in row) == (raw.decode(), False)


@given(raw=st.binary(max_size=80) | st.text(max_size=40).map(lambda text: json.dumps({"jsonrpc": text}).encode()))
@so_many(40)
def test_a_row_is_one_line_of_json_whatever_crossed(tmp_path: Path, raw: bytes) -> None:
    raw = raw.replace(b"\n", b" ")
    capture = written(tmp_path / "any.mcpcap", lines([("header", header()), ("frame", frame("s2c", raw)), CLOSE]))
    output = shown_here(capture)
    assert [row["seq"] for row in rows(output)] == [0, 1, 2]


def shown_here(capture: Path, text: str | None = None) -> bytes:
    """Returns what `show --json` prints, filtered or not, without starting a process for each example."""
    reading = Reading(capture, in_records=True)
    printer = _JsonPrinter(reading.fold, None if text is None else parse(text))
    return "".join(printer.text(row) for step in reading.to_end() for row in printer.on_step(step)).encode()


# ---- a filter

DOCS = Path(__file__).parents[3] / "docs/filter.md"
DEMO = Path(__file__).parents[2] / "corpus/captures/demo.mcpcap"
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}'


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Three calls of which two are answered, a batch, a message over three lines, and a line that is not a message."""
    batch = b'[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"tools/list"}]'
    middles = [
        ("header", header()),
        *(("frame", frame("c2s", CALL % n)) for n in (1, 2, 3)),
        ("stderr", members(raw="add is slow today")),
        *(("frame", frame("s2c", ANSWER % (n, n))) for n in (2, 1)),
        ("frame", frame("c2s", batch)),
        *(("frame", frame("s2c", raw)) for raw in (b'{"jsonrpc":"2.0",', b'"method":', b'"add/ed"}')),
        ("frame", frame("s2c", b"add is no JSON")),
        CLOSE,
    ]
    return written(tmp_path / "talk.mcpcap", lines(middles))


SELECTED = [
    ("method:tools/call", [1, 2, 3, 5, 6]),
    ("method:tools/call kind:response", [5, 6]),
    ("name:add dir:s2c", [5, 6]),
    ("latency>=3ms", [5, 6]),
    ("latency>3ms", [6]),
    ("id:1", [1, 6]),
    ("kind:batch", [7]),
    ("method:ping", [7]),
    ("kind:batch method:none", []),
    ("method:add/*", [8, 9, 10]),
    ("kind:invalid", [11]),
    ("add", [1, 2, 3, 8, 9, 10, 11]),
    ("not method:tools/call not kind:batch", [8, 9, 10, 11]),
    ("session:1 id:3", [3]),
    ("session:2", []),
]


@pytest.mark.parametrize(("text", "numbers"), SELECTED, ids=[text for text, _ in SELECTED])
def test_rows_are_those_of_frames_in_which_something_is_selected(talk: Path, text: str, numbers: list[int]) -> None:
    everything = {row["seq"]: row for row in rows(shown_here(talk))}
    assert rows(shown_here(talk, text)) == [everything[seq] for seq in numbers]


def test_a_filter_works_in_json_as_in_text(talk: Path) -> None:
    as_json = mcpproxy("show", "--json", "--filter", "method:tools/call kind:response", talk)
    assert [row["seq"] for row in rows(as_json.stdout)] == [5, 6]
    as_text = mcpproxy("show", "--filter", "method:tools/call kind:response", talk)
    heading, *shown = as_text.stdout.decode().splitlines()
    assert heading == "files  talk.mcpcap"
    assert re.findall(r"← +tools/call #(\d) add", "\n".join(shown)) == ["2", "1"]
    assert len(shown) == 2
    assert (as_json.returncode, as_text.returncode) == (0, 0)


def test_what_is_no_message_is_shown_only_without_a_filter(talk: Path) -> None:
    assert b"slow today" in mcpproxy("show", talk).stdout
    shown = mcpproxy("show", "--filter", "add", talk).stdout.decode()
    assert "slow today" not in shown
    assert "server exited" not in shown
    assert "add is no JSON" in shown


def test_a_selected_message_of_a_batch_stands_below_its_batch(talk: Path) -> None:
    _, *shown = mcpproxy("show", "--filter", "method:ping dir:c2s", talk).stdout.decode().splitlines()
    assert "batch of 2" in shown[0]
    assert "ping #7" in shown[1]
    # The end lists the selected requests without a response, and counts no others.
    assert "1 request unanswered" in shown[2]
    assert "ping #7" in shown[3]
    assert len(shown) == 4


def test_a_selected_batch_stands_alone(tmp_path: Path) -> None:
    batch = b'\xef\xbb\xbf[{"jsonrpc":"2.0","id":1,"method":"ping"}]'
    capture = written(tmp_path / "batch.mcpcap", lines([("header", header()), ("frame", frame("c2s", batch)), CLOSE]))
    _, *shown = mcpproxy("show", "--filter", "problem:framing/bom", capture).stdout.decode().splitlines()
    assert len(shown) == 1
    assert "batch of 1" in shown[0]
    assert [row["seq"] for row in rows(shown_here(capture, "problem:framing/bom"))] == [1]


@pytest.mark.parametrize("ending", [[], [("eof", members(dir="s2c"))]], ids=["end", "eof"])
def test_a_message_that_never_ended_is_selected_as_what_it_is(tmp_path: Path, ending: list[tuple[str, bytes]]) -> None:
    begun = b'{"jsonrpc":"2.0",'
    middles = [("header", header()), ("frame", frame("c2s", CALL % 1)), ("frame", frame("s2c", begun)), *ending]
    capture = written(tmp_path / "begun.mcpcap", lines(middles))
    assert [row["seq"] for row in rows(shown_here(capture, "kind:invalid"))] == [2]
    assert [row["seq"] for row in rows(shown_here(capture, "kind:request"))] == [1]
    _, *shown = mcpproxy("show", "--filter", "kind:invalid", capture).stdout.decode().splitlines()
    assert len(shown) == 1
    assert "not a message" in shown[0]
    _, *shown = mcpproxy("show", "--filter", "kind:request", capture).stdout.decode().splitlines()
    assert ["tools/call #1" in line for line in shown] == [True, False, True]
    assert "1 request unanswered" in shown[1]


def test_tail_and_limit_count_what_is_selected(talk: Path) -> None:
    def numbers(*options: str) -> list[str]:
        shown = mcpproxy("show", "--filter", "method:tools/call dir:c2s", *options, talk).stdout.decode()
        return re.findall(r"→ +tools/call #(\d) add +\d+ B", shown)

    assert numbers() == ["1", "2", "3"]
    assert numbers("--limit", "2") == ["1", "2"]
    assert numbers("--tail", "2") == ["2", "3"]


def test_a_filter_selects_from_what_is_followed(talk: Path) -> None:
    done = mcpproxy("show", "--follow", "--json", "--filter", "method:tools/call kind:response", talk)
    assert [row["seq"] for row in rows(done.stdout)] == [5, 6]


def test_damage_is_told_with_a_filter_too(damaged: Path) -> None:
    done = mcpproxy("show", "--json", "--filter", "id:2 or id:4", damaged)
    assert done.returncode == 2
    assert [row["seq"] for row in rows(done.stdout)] == [2, 4]
    assert b"damaged" in done.stderr


@pytest.mark.parametrize(
    ("text", "at", "wrong"),
    [
        ("dir:c2s latency>fast", 16, "expected a time"),
        ("a (b", 4, "expected `)`"),
        ("a\x1b[2J and\n", 10, "expected a term"),
        ("a rule:id/*", 2, "`show` does not know `rule`"),
        ("a or has=mark", 5, "`show` does not know `has:mark`"),
        ("level>note", 0, "`show` does not know `level`"),
    ],
)
def test_a_wrong_filter_is_exit_2_and_points_at_the_place(capture: Path, text: str, at: int, wrong: str) -> None:
    for options in ([], ["--json"]):
        done = mcpproxy("show", *options, "--filter", text, capture)
        assert (done.returncode, done.stdout) == (2, b"")
        first, second, third = done.stderr.decode().splitlines()
        assert first.startswith("mcpproxy: --filter: ")
        assert wrong in first
        assert "\x1b" not in second
        assert third == "mcpproxy: " + " " * (at + 2) + "^"


def examples() -> list[tuple[str, int]]:
    """The filters of the page, and how many messages of the demo each one selects."""
    section = DOCS.read_text("utf-8").split("## Examples")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(.+?)` \| .* \| (\d+) \|$", section, re.MULTILINE)
    return [(text, int(count)) for text, count in found]


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 10


@pytest.mark.parametrize(("text", "count"), examples(), ids=[text for text, _ in examples()])
def test_an_example_of_the_page_selects_what_it_says(text: str, count: int) -> None:
    assert len(rows(shown_here(DEMO, text))) == count


# ---- damaged captures


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


# ---- a reader that closes the pipe


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


@pytest.mark.parametrize("form", [(), ("--json",), ("--follow",), ("--tail", "2")])
def test_a_filter_that_fits_nothing_says_so(capture: Path, form: tuple[str, ...]) -> None:
    done = mcpproxy("show", *form, "--filter", "method:tool/call", capture)
    assert (done.returncode, done.stderr) == (0, b"mcpproxy: no message matches the filter\n")
    assert mcpproxy("show", *form, "--filter", "method:tools/*", capture).stderr == b""


def test_a_body_where_no_message_is_due_is_not_called_a_message(tmp_path: Path) -> None:
    trace = HttpTrace()
    trace.answer(trace.post(notification("notifications/initialized")), {"status": "accepted"}, status="202 Accepted")
    trace.answer(trace.post({}, method="PUT"), status="405 Method Not Allowed")
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    shown = mcpproxy("show", path).stdout.decode()
    assert 'body  {"status": "accepted"}' in shown
    assert "body  {}" in shown
    assert "✗" not in shown
    assert b"body" not in mcpproxy("show", "--filter", "has:problem", path).stdout
