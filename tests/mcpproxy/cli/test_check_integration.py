"""`mcpproxy check` as a process: its findings, its output formats, and its exit codes."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.parse
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.rules.discovery import rules
from captures.file import CaptureFile
from captures.record import members
from captures.verdict import Direction
from mcpproxy.check_run import parallel_rules, worker_pool
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.importers.case import Case
from tests.analysis.http_trace import ASKED, SERVED, HttpTrace, notification, request, result
from tests.analysis.traces import CORPUS, grave, read
from tests.analysis.traces import check as checked
from tests.captures.samples import frame, header, in_pieces, lines
from tests.harness import DEADLINE_S, ROOT, children, is_alive, wait_until
from tests.http_harness import post
from tests.mcpproxy.cli.test_follow_integration import Growing, Output
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, python, started
from tests.mcpproxy.report.findings import twisted

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
IDS = ("--rule", "id/*")
"""The only rules that these tests run, so that no other rule changes the output."""
CLOSE = ("close", members(ending="server", status=0, totals={}))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Three responses whose ids have become strings."""
    return twisted(tmp_path / "three.mcpcap", 3)


def rows(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def rules_in(output: bytes) -> list[str]:
    return [row["rule"] for row in rows(output)]


# ---- captures


def test_findings_are_told_and_counted(capture: Path) -> None:
    done = mcpproxy("check", *IDS, capture)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (1, b"")
    assert text.startswith(f"{capture}\n\n  error    id/type-changed ")
    assert text.count('      {"jsonrpc":"2.0","id":"') == 3
    assert text.splitlines()[-1] == "3 errors in 6 frames of 1 session. Server: 3 errors. Client: none."


def conversation(path: Path, *frames: bytes) -> Path:
    """Write a capture of frames that a client sent."""
    path.write_bytes(b"".join(lines([("header", header()), *(("frame", frame("c2s", raw)) for raw in frames)])))
    return path


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def test_a_flawless_capture_prints_only_that(tmp_path: Path) -> None:
    done = mcpproxy("check", "--rule", "framing/*", conversation(tmp_path / "one.mcpcap", PING))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"No findings in 1 frame of 1 session.\n"


# ---- nothing to check


def test_repeated_findings_in_one_message_are_counted(tmp_path: Path) -> None:
    """docs/commands/check.md: twenty findings of a rule and session are listed, the rest are counted."""
    tools = [{"name": f"a tool {number}", "inputSchema": {"type": "object"}} for number in range(57)]
    path = tmp_path / "one.mcpcap"
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode()
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    path.write_bytes(
        b"".join(lines([("header", header()), ("frame", frame("c2s", asked)), ("frame", frame("s2c", listed))]))
    )
    done = mcpproxy("check", "--rule", "tool/name", "--notes", path)
    text = done.stdout.decode()
    assert text.count("the name of a tool has characters that are not allowed") == 20
    assert "    and 37 more\n" in text
    assert text.splitlines()[-1].startswith("57 ")
    assert [row["more"] for row in rows(mcpproxy("check", "--rule", "tool/name", "--format", "json", path).stdout)] == [
        *[0] * 19,
        37,
    ]
    assert json.loads(mcpproxy("rule", "tool/name", "--in", path, "--format", "json").stdout)["found"] == 57
    junit = mcpproxy("check", "--rule", "tool/name", "--format", "junit", path).stdout
    assert b"and 37 more" in junit


def test_a_capture_without_frames_does_not_pass_as_flawless(tmp_path: Path) -> None:
    empty = conversation(tmp_path / "none.mcpcap")
    done = mcpproxy("check", empty)
    assert done.returncode == 2
    told = f"mcpproxy: {empty}: nothing to check: it holds no frames; --allow-empty accepts that\n"
    assert done.stderr.decode() == told
    assert done.stdout.startswith(b"No findings in 0 frames")
    done = mcpproxy("check", "--allow-empty", empty)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_capture_in_which_every_exchange_failed_does_not_pass_either(tmp_path: Path) -> None:
    path = tmp_path / "dead.mcpcap"
    with socket.socket() as held:
        # A port that refuses connections, and that no other process can take.
        held.bind(("127.0.0.1", 0))
        upstream = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        with started("serve", "--capture", path, upstream) as serving:
            assert serving.stdout is not None
            url = serving.stdout.readline().decode().strip()
            at = urllib.parse.urlsplit(url)
            with socket.create_connection((at.hostname, at.port), DEADLINE_S) as client:
                # In one piece: a body that follows its head could arrive after the response.
                client.sendall(post(PING))
                assert client.recv(12) == b"HTTP/1.1 502"
            serving.send_signal(signal.SIGINT)
            serving.wait(DEADLINE_S)
    done = mcpproxy("check", path)
    assert done.returncode == 1
    assert b"the upstream cannot be reached: Connection refused" in done.stdout
    ignored = "--ignore", "http/unreachable"
    done = mcpproxy("check", *ignored, path)
    assert done.returncode == 2
    assert (
        b"nothing to check: the server sent no message, and the last HTTP exchange ended with status 502" in done.stderr
    )
    assert mcpproxy("check", *ignored, "--allow-empty", path).returncode == 0


def test_of_several_captures_one_may_be_empty(capture: Path, tmp_path: Path) -> None:
    empty, other = conversation(tmp_path / "none.mcpcap"), conversation(tmp_path / "also.mcpcap")
    done = mcpproxy("check", *IDS, empty, capture)
    assert (done.returncode, done.stderr.count(b"nothing to check")) == (1, 1)
    done = mcpproxy("check", *IDS, empty, other)
    assert (done.returncode, done.stderr.count(b"nothing to check")) == (2, 2)


def test_json_tells_each_finding_with_its_record(capture: Path) -> None:
    done = mcpproxy("check", "--json", *IDS, capture)
    first, *others = rows(done.stdout)
    assert done.returncode == 1
    assert len(others) == 2
    assert (first["rule"], first["level"], first["blames"]) == ("id/type-changed", "error", "server")
    assert first["impact"] == "message"
    assert (first["session"], first["frame"], first["related"], first["pointer"]) == (1, 2, [1], "/id")
    assert (first["capture"], first["method"]) == (str(capture), "tools/call")
    assert first["at"] == "2026-11-18T11:06:40.002000000Z"


def test_it_ends_with_what_to_do_first(capture: Path, tmp_path: Path) -> None:
    assert b"First 1" not in mcpproxy("check", *IDS, capture).stdout
    other = tmp_path / "chatty.mcpcap"
    other.write_bytes(b"".join(lines([("header", header()), ("frame", frame("s2c", b"hello"))])))
    chosen = ("--rule", "framing/stdout-not-json", "--rule", "id/type-changed")
    *_, first, second, blank, sums = mcpproxy("check", *chosen, capture, other).stdout.decode().split("\n")[:-1]
    assert re.fullmatch("First 1  no connection  framing/stdout-not-json +server +frame 1  .*chatty", first)
    assert re.fullmatch("      2  message lost   id/type-changed +server +×3  frame 2  .*three", second)
    assert (blank, sums[:9]) == ("", "4 errors ")
    assert max(len(line) for line in (first, second)) <= 80


@pytest.mark.parametrize(("level", "code"), [("error", 1), ("warning", 1), ("note", 1), ("never", 0)])
def test_the_level_that_fails_is_chosen(capture: Path, level: str, code: int) -> None:
    assert mcpproxy("check", "--fail-on", level, *IDS, capture).returncode == code


def test_a_note_fails_where_notes_do(tmp_path: Path) -> None:
    path = tmp_path / "float.mcpcap"
    path.write_bytes(
        b"".join(lines([("header", header()), ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}'))]))
    )
    assert mcpproxy("check", *IDS, path).returncode == 0
    assert mcpproxy("check", "--fail-on", "note", *IDS, path).returncode == 1
    assert "id/float-integer" not in mcpproxy("check", *IDS, path).stdout.decode()
    for form in ("text", "github"):
        told = ["check", "--format", form, path]
        assert b"id/float-integer" not in mcpproxy(*told, *IDS).stdout
        assert b"id/float-integer" in mcpproxy(*told, *IDS, "--notes").stdout
        assert b"id/float-integer" in mcpproxy(*told, *IDS, "--fail-on", "note").stdout
        assert b"id/float-integer" in mcpproxy(*told, "--rule", "id/float-integer").stdout


def test_rules_are_chosen_and_left_out_by_patterns(capture: Path) -> None:
    assert (
        rules_in(mcpproxy("check", "--json", "--rule", "id/t*", "--rule", "id/null", capture).stdout)
        == ["id/type-changed"] * 3
    )
    assert rules_in(mcpproxy("check", "--json", *IDS, "--ignore", "id/type-*", capture).stdout) == []
    assert "id/type-changed" not in rules_in(mcpproxy("check", "--json", "--ignore", "id/*", capture).stdout)


def test_a_pattern_that_fits_no_rule_is_a_mistake(capture: Path) -> None:
    for option in ("--rule", "--ignore"):
        done = mcpproxy("check", option, "ids/*", capture)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"no rule matches ids/*" in done.stderr
    done = mcpproxy("check", "--rule", "id", capture)
    assert (done.returncode, done.stderr) == (2, b"mcpproxy: id is a group of rules; id/* matches all of them\n")


def test_a_choice_brings_nothing_back_that_another_rule_takes_away(tmp_path: Path) -> None:
    path = tmp_path / "echo.mcpcap"
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    path.write_bytes(
        b"".join(lines([("header", header()), ("frame", frame("c2s", request)), ("frame", frame("s2c", request))]))
    )
    everything = rules_in(mcpproxy("check", "--json", path).stdout)
    assert "id/echoed-frame" in everything
    assert "method/wrong-direction" not in everything
    assert rules_in(mcpproxy("check", "--json", "--rule", "method/*", path).stdout) == []


def test_a_filter_selects_findings_by_their_messages(tmp_path: Path) -> None:
    path = twisted(tmp_path / "three.mcpcap", 3)

    def seen(expression: str) -> list[int]:
        return [row["frame"] for row in rows(mcpproxy("check", "--json", *IDS, "--filter", expression, path).stdout)]

    assert seen('id:"2"') == [4]
    assert seen("method:tools/* level>=error") == [2, 4, 6]
    assert seen("rule:id/null") == []
    done = mcpproxy("check", "--filter", "level>=bad", path)
    assert done.returncode == 2
    assert b"expected note, warning or error" in done.stderr


@pytest.mark.parametrize("columns", [20, 50, 80])
def test_the_caret_below_a_filter_stands_below_its_place_or_is_left_out(columns: int) -> None:
    told = on_terminal("check", "--filter", "method:tools/call and method:tools/list latency>fast", columns=columns)
    first, expression, *caret = told.decode().splitlines()
    assert first.startswith("mcpproxy: --filter: expected a time")
    assert len(caret) == (len(expression) <= columns)
    assert not caret or expression[caret[0].index("^") :].startswith("fast")


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_findings_fit_on_a_terminal(tmp_path: Path, columns: int) -> None:
    path = twisted(tmp_path / "a.mcpcap", 3)
    shown = re.sub(rb"\x1b\[[0-9;]*m", b"", on_terminal("check", *IDS, path.name, columns=columns, cwd=tmp_path))
    lines = shown.decode().splitlines()
    assert max(len(line) for line in lines) <= columns
    assert " ".join(" ".join(lines[-3:]).split()).endswith(
        "3 errors in 6 frames of 1 session. Server: 3 errors. Client: none."
    )
    for above, below in pairwise(lines):
        if below.strip(" ^") == "" and "^" in below:
            assert above[below.index("^") : below.rindex("^") + 1] in ('"1"', '"2"', '"3"')


def test_carets_are_left_out_where_other_signs_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpcap"
    call = '{"x":"名","jsonrpc":"2.0","id":1.0,"method":"ping"}'.encode()
    path.write_bytes(b"".join(lines([("header", header()), ("frame", frame("c2s", call))])))
    told = ("check", "--rule", "id/float-integer", path)
    assert b"^^^" in mcpproxy(*told).stdout
    assert b"^^^" not in mcpproxy(*told, PYTHONIOENCODING="ascii").stdout


def test_a_filter_knows_requests_that_were_never_answered(tmp_path: Path) -> None:
    path = tmp_path / "null.mcpcap"
    path.write_bytes(
        b"".join(lines([("header", header()), ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'))]))
    )
    for expression, count in (("method:ping", 1), ("method:pong", 0)):
        assert len(rows(mcpproxy("check", "--json", *IDS, "--filter", expression, path).stdout)) == count


def test_what_the_baseline_has_is_accepted(capture: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "accepted.jsonl"
    baseline.write_bytes(mcpproxy("check", "--json", *IDS, capture).stdout)
    # The same fault in another session, under other ids.
    other = twisted(tmp_path / "other.mcpcap", 2, first=70)
    done = mcpproxy("check", "--baseline", baseline, *IDS, other)
    assert done.returncode == 0
    assert done.stdout == b"No findings in 4 frames of 1 session. 2 accepted by the baseline.\n"
    assert mcpproxy("check", "--json", "--baseline", baseline, *IDS, other).stdout == b""
    baseline.write_bytes(baseline.read_bytes().replace(b"tools/call", b"tools/list"))
    assert mcpproxy("check", "--baseline", baseline, *IDS, other).returncode == 1


def test_what_follows_from_an_accepted_finding_is_not_accepted_with_it(tmp_path: Path) -> None:
    def conversation(name: str, times: int) -> Path:
        trace = HttpTrace()
        trace.answer(trace.post(request(0, "initialize", **ASKED)), result(0, **SERVED))
        trace.answer(trace.post(notification("notifications/initialized")), status="202 Accepted")
        trace.answer(trace.post(request(1, "tools/call", name="dig", arguments={})), status="502 Bad Gateway")
        for _ in range(times):
            trace.answer(trace.post(request(1, "tools/list")), result(1, tools=[]))
        path = tmp_path / f"{name}.mcpcap"
        path.write_bytes(b"".join(line for _, line in trace.case().records()))
        return path

    before, after, baseline = conversation("before", 0), conversation("after", 2), tmp_path / "accepted.jsonl"
    told = ("check", "--rule", "http/call-refused", "--rule", "id/duplicate-request", "--baseline", baseline)
    assert mcpproxy(*told, "--update-baseline", before).returncode == 0
    assert mcpproxy(*told, before).returncode == 0
    done = mcpproxy(*told, after)
    assert (done.returncode, b"id/duplicate-request" in done.stdout) == (1, True)
    # Nor is a finding counted under one that is not selected.
    assert mcpproxy("check", "--rule", "id/duplicate-request", after).returncode == 1
    assert mcpproxy(*told, "--update-baseline", after).returncode == 0
    assert mcpproxy(*told, after).returncode == 0


def test_a_baseline_that_cannot_be_read_is_told(capture: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"rule":"id/null"}\n')
    for path, reason in (
        (wrong, "line 1: expected a finding"),
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
    ):
        done = mcpproxy("check", "--baseline", path, capture)
        assert (done.returncode, done.stdout) == (2, b"")
        assert reason in done.stderr.decode()


def test_a_baseline_is_updated_with_what_is_found_and_with_no_more(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    baseline = tmp_path / "server/accepted.jsonl"
    told = ("check", *IDS, "--baseline", "server/accepted.jsonl")
    done = mcpproxy(*told, "--update-baseline", capture.name, cwd=tmp_path)
    assert (done.returncode, b"3 errors" in done.stdout) == (0, True)
    assert done.stderr == b"mcpproxy: 1 entry in the baseline server/accepted.jsonl: 1 new, 0 gone\n"
    first = baseline.read_bytes()
    (entry,) = rows(first)
    assert list(entry) == ["rule", "level", "blames", "method", "pointer", "message", "capture"]
    assert entry["capture"] == "../three.mcpcap"
    assert mcpproxy(*told, capture.name, cwd=tmp_path).returncode == 0
    # The same fault in another session does not change the file, regardless of the working directory.
    other = twisted(tmp_path / "other.mcpcap", 2, first=70)
    done = mcpproxy("check", *IDS, "--baseline", baseline, "--update-baseline", other)
    assert (done.returncode, done.stderr.endswith(b"0 new, 0 gone\n")) == (0, True)
    assert baseline.read_bytes() == first
    # A finding that no longer occurs is removed.
    done = mcpproxy(*told, "--update-baseline", conversation(tmp_path / "fine.mcpcap", PING).name, cwd=tmp_path)
    assert (done.returncode, done.stderr.endswith(b"0 new, 1 gone\n"), baseline.read_bytes()) == (0, True, b"")


def test_an_older_baseline_is_updated_in_place(capture: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_bytes(mcpproxy("check", "--json", *IDS, capture).stdout)
    real.chmod(0o640)
    link.symlink_to(real)
    done = mcpproxy("check", *IDS, "--baseline", link, "--update-baseline", capture)
    assert (done.returncode, done.stderr.endswith(b"0 new, 0 gone\n")) == (0, True)
    assert [row["capture"] for row in rows(real.read_bytes())] == ["three.mcpcap"]
    assert (link.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.jsonl", "real.jsonl", "three.mcpcap"]


def test_a_baseline_is_left_alone_where_not_all_was_checked(capture: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "accepted.jsonl"
    baseline.write_bytes(mcpproxy("check", "--json", *IDS, capture).stdout)
    before = baseline.read_bytes()
    update = ("check", *IDS, "--baseline", baseline, "--update-baseline")
    for path in (tmp_path / "gone.mcpcap", conversation(tmp_path / "none.mcpcap")):
        done = mcpproxy(*update, path)
        assert done.returncode == 2
        why = "something could not be checked, or there was nothing to check"
        assert done.stderr.endswith(f"mcpproxy: the baseline {baseline} was not changed: {why}\n".encode())
    assert mcpproxy("check", "--update-baseline", capture).returncode == 2
    assert baseline.read_bytes() == before
    # A file that is not a baseline is not overwritten either.
    baseline.write_text("precious\n")
    assert mcpproxy(*update, capture).returncode == 2
    assert baseline.read_text() == "precious\n"


def test_several_captures_have_one_sum(capture: Path, tmp_path: Path) -> None:
    other = twisted(tmp_path / "one.mcpcap", 1)
    text = mcpproxy("check", *IDS, capture, other).stdout.decode()
    assert re.findall(r"^/.*mcpcap$", text, re.MULTILINE) == [str(capture), str(other)]
    assert "4 errors in 8 frames of 2 sessions." in text


def test_a_profile_tells_what_rules_cost_and_which_were_never_asked(capture: Path) -> None:
    plain, profiled = mcpproxy("check", capture), mcpproxy("check", "--profile", capture)
    assert (profiled.returncode, profiled.stdout) == (plain.returncode, plain.stdout)
    table = profiled.stderr.decode().splitlines()
    assert re.search(r"^[\d,]+ frames? took [\d.]+ m?s, .* µs a frame$", table[0])
    assert table[1].split() == ["rule", "runs", "µs", "each", "share"]
    end = next(number for number, line in enumerate(table) if " had nothing to look at " in line)
    asked = {line.split()[0]: int(line.split()[1].replace(",", "")) for line in table[2:end] if "other" not in line}
    assert set(asked) <= set(rules())
    assert min(asked.values()) > 0
    parallel_rules = [float(line.split()[-1].rstrip("%")) for line in table[2:end]]
    assert abs(sum(parallel_rules) - 100) < 3
    told = " ".join(table[end:])
    assert "never ran; of these groups none:" in told
    assert "auth" in told.split(": ")[-1].split(", ")
    assert max(map(len, table)) <= 80


def test_the_newest_capture_and_stdin_are_taken(capture: Path, tmp_path: Path) -> None:
    assert mcpproxy("check", *IDS, MCPPROXY_CAPTURES=str(tmp_path), HOME=str(tmp_path)).returncode == 1
    done = mcpproxy("check", "--json", *IDS, "-", stdin=capture.read_bytes())
    assert rules_in(done.stdout) == ["id/type-changed"] * 3


def test_a_capture_that_is_elsewhere_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".local/share/mcpproxy/captures/server"
    folder.mkdir(parents=True)
    elsewhere = twisted(folder / "20261121T101502Z-4f2a.mcpcap")

    def check(*words: str | Path) -> "subprocess.CompletedProcess[bytes]":
        return mcpproxy("check", *words, cwd=tmp_path, HOME=str(tmp_path), MCPPROXY_CAPTURES="captures")

    done = check("captures")
    assert done.returncode == 2
    assert f"; the newest capture is {elsewhere}; " in done.stderr.decode()
    for named in ([], ["server"]):
        done = check(*named, *IDS)
        assert done.returncode == 1
        told = f"; it is not below MCPPROXY_CAPTURES, which is {tmp_path / 'captures'}\n"
        assert done.stderr.decode().startswith(f"mcpproxy: reading {elsewhere}, the only capture")
        assert done.stderr.decode().endswith(told)
    assert check(*IDS, elsewhere).stderr == b""


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github"])
def test_stdin_is_called_stdin(capture: Path, form: str) -> None:
    damaged = capture.read_bytes().replace(b"c2s", b"s2c", 1)
    done = mcpproxy("check", "--format", form, *IDS, "-", stdin=damaged)
    assert b"stdin" in done.stdout
    assert done.stderr.startswith(b"mcpproxy: stdin: ")
    assert b"/tmp" not in done.stdout + done.stderr
    if form != "github":
        return
    assert b"file=stdin,line=5::" in done.stdout
    done = mcpproxy("check", "-", stdin=b"hello")
    assert (done.returncode, done.stdout, done.stderr.count(b"stdin")) == (2, b"", 1)
    assert b"/tmp" not in done.stderr


@pytest.mark.parametrize("command", ["check", "show", "info"])
def test_a_stdin_that_is_closed_is_told_in_a_line(command: str) -> None:
    shell = f"exec {shlex.quote(sys.executable)} -P -m mcpproxy {command} - <&-"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"mcpproxy: cannot read a capture from stdin: it is closed; name a capture\n"


def test_damage_comes_before_findings_and_hides_none(capture: Path) -> None:
    whole = capture.read_bytes().splitlines(keepends=True)
    whole[3] = whole[3].replace(b"c2s", b"s2c", 1)
    capture.write_bytes(b"".join(whole))
    done = mcpproxy("check", "--json", "--rule", "id/type-changed", capture)
    assert done.returncode == 2
    assert b"damaged" in done.stderr
    assert [row["frame"] for row in rows(done.stdout)] == [2, 6]


def test_a_capture_that_cannot_be_read_keeps_no_other_from_being_checked(capture: Path, tmp_path: Path) -> None:
    done = mcpproxy("check", *IDS, tmp_path / "gone.mcpcap", capture)
    assert done.returncode == 2
    assert b"gone.mcpcap" in done.stderr
    assert b"3 errors" in done.stdout


@pytest.mark.parametrize("form", ["text", "github", "json"])
def test_nothing_is_summed_up_where_nothing_could_be_read(tmp_path: Path, form: str) -> None:
    done = mcpproxy("check", "--format", form, tmp_path / "gone.mcpcap")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert [line.partition(b",")[0] for line in done.stdout.splitlines()] == (
        [b"::error title=cannot be checked"] if form == "github" else []
    )


def test_a_filter_that_fits_no_finding_says_so(capture: Path) -> None:
    for form, expression in (("text", "method:tools/cal"), ("json", "level:note")):
        done = mcpproxy("check", "--format", form, *IDS, "--filter", expression, capture)
        assert (done.returncode, done.stderr) == (0, b"mcpproxy: no finding matches the filter\n")
    assert mcpproxy("check", *IDS, "--filter", "method:tools/call", capture).stderr == b""
    assert mcpproxy("check", "--ignore", "*", capture).stderr == b""


def test_every_form_is_written(capture: Path) -> None:
    for form, begins in (("junit", b"<?xml"), ("sarif", b'{"$schema"'), ("github", b"::error title=id/type-changed,")):
        done = mcpproxy("check", "--format", form, *IDS, capture)
        assert (done.returncode, done.stderr) == (1, b"")
        assert done.stdout.startswith(begins)
    run = json.loads(mcpproxy("check", "--format", "sarif", *IDS, capture.name, cwd=capture.parent).stdout)["runs"][0]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["three.mcpcap"] * 3
    whole = capture.read_bytes()
    for place, seq in zip(places, (2, 4, 6), strict=True):
        region = place["region"]
        line = whole[region["byteOffset"] :][: region["byteLength"]]
        assert json.loads(line)["seq"] == seq
        assert whole.splitlines()[region["startLine"] - 1] == line


def test_a_closed_pipe_ends_it_silently(capture: Path) -> None:
    with started("check", "--json", *IDS, capture) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(DEADLINE_S) in (0, 1)
        assert process.stderr is not None
        assert process.stderr.read() == b""


# ---- several processes


def large(path: Path, id_: int, count: int = 1) -> Path:
    """Write a capture of some megabytes in which requests are answered under other ids."""
    call = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a","arguments":{"b":"%b"}}}'
    answer = b'{"jsonrpc":"2.0","id":"%d","result":{"content":[]}}'
    frames = [
        ("frame", one)
        for number in range(id_, id_ + count)
        for one in (frame("c2s", call % (number, b"c" * worker_pool.WORTH)), frame("s2c", answer % number))
    ]
    path.write_bytes(b"".join(lines([("header", header()), *frames, CLOSE])))
    return path


ALONE = """
import os, sys
from mcpproxy.__main__ import main
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.exit(main())
"""
"""A command that is limited to one processor."""
SHARED_OUT = """
import sys
from mcpproxy.__main__ import main
from mcpproxy.check_run import parallel_rules
parallel_rules.WORTH = 1 << 20
sys.exit(main())
"""
"""A command that treats a capture of 1 MiB as large."""


@pytest.mark.costly("four captures are as large as is worth a process each")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot reserve a processor")
@pytest.mark.parametrize(
    "forms", [("text", "json", "sarif"), pytest.param(("junit", "github"), marks=pytest.mark.soak)]
)
def test_several_captures_are_reported_in_order(tmp_path: Path, forms: tuple[str, ...]) -> None:
    names = [large(tmp_path / f"{number}.mcpcap", number) for number in range(4)]
    assert worker_pool.process_count(names, CheckOptions()) in (0, min(4, os.cpu_count() or 1))
    missing = tmp_path / "none.mcpcap"
    missing.write_bytes(b"no capture\n")
    for form in forms:
        words: list[str | Path] = ["check", "--format", form, *IDS, *names[:2], missing, *names[2:]]
        done, alone = mcpproxy(*words), python(ALONE, *words)
        assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr), form
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
        places = [done.stdout.index(name.name.encode()) for name in names]
        assert places == sorted(places)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot reserve a processor")
@pytest.mark.parametrize("size", [1 << 20, pytest.param(parallel_rules.WORTH, marks=pytest.mark.soak)])
def test_one_large_capture_is_reported_as_by_one_process(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = large(tmp_path / "large.mcpcap", 1, -(-size // worker_pool.WORTH))
    monkeypatch.setattr(parallel_rules, "WORTH", size)
    if not worker_pool.process_count([name], CheckOptions()):
        pytest.skip("there is one processor")
    for form in ("text", "json"):
        words = ("check", "--format", form, name)
        done, alone = mcpproxy(*words) if size > 1 << 20 else python(SHARED_OUT, *words), python(ALONE, *words)
        assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
        assert done.stdout


BUSY_FOR_EVER = """
import os, signal, sys
from mcpproxy.__main__ import main
from mcpproxy.check_run import worker_pool, parallel_rules, workers

def begin(path, _):
    open(f"{path}.{os.getpid()}", "w").close()
    signal.pause()

worker_pool.WORTH = parallel_rules.WORTH = 1
workers.examine_numbered = begin
sys.exit(main())
"""
"""A command whose workers never end."""


@pytest.mark.parametrize("count", [1, 4])
def test_ctrl_c_ends_every_process_at_once(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [twisted(tmp_path / f"{number}.mcpcap", 1) for number in range(count)]
    for module in (worker_pool, parallel_rules):
        monkeypatch.setattr(module, "WORTH", 1)
    expected = worker_pool.process_count(names, CheckOptions())
    if not expected:
        pytest.skip("there is one processor")
    with started("check", "--json", *names, code=BUSY_FOR_EVER) as process:
        # Not earlier: in the middle of a fork, Python drops what a signal raises.
        wait_until(lambda: len(list(tmp_path.glob("*.mcpcap.*"))) == expected, "workers to begin")
        pids = children(process.pid)
        assert len(pids) == expected
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
        wait_until(lambda: not any(map(is_alive, pids)), "the workers to end")


# ---- locations of findings


def found_in(path: Path) -> list[LocatedFinding]:
    examination = CaptureCheck(path, CheckOptions(lambda rule: rule == "id/type-changed"))
    return [one for _, found in examination.examine_to_end() for one in found]


def line_at(one: LocatedFinding) -> Any:
    assert one.place is not None
    line = one.place.path.read_bytes()[one.place.offset :][: one.place.size]
    assert one.place.path.read_bytes().splitlines()[one.place.line - 1] == line
    return json.loads(line)


def test_places_are_right_over_segments_and_behind_damage(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", 2)
    first = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*first[:3], b"no record\n\n" * 3, *first[3:]]))
    second = [
        ("header", header(2)),
        ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":9,"method":"ping"}')),
        ("frame", frame("s2c", b'{"jsonrpc":"2.0","id":"9","result":{}}')),
    ]
    (tmp_path / "a.2.mcpcap").write_bytes(b"".join(lines(second, len(first))))
    found = found_in(path)
    assert [line_at(one)["seq"] for one in found] == [one.finding.frame for one in found] == [2, 4, len(first) + 2]
    assert [one.place.path.name for one in found if one.place] == ["a.mcpcap", "a.mcpcap", "a.2.mcpcap"]


def test_a_record_whose_number_came_before_has_no_place(tmp_path: Path) -> None:
    path = twisted(tmp_path / "a.mcpcap", 1)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*whole, *whole[1:]]))
    assert all(one.place is None or line_at(one)["seq"] == one.finding.frame for one in found_in(path))


def test_a_giant_frame_is_found_and_shown_without_an_excerpt(tmp_path: Path) -> None:
    giant = b'{"jsonrpc":"2.0","result":{"x":"%b"},"id":"1"}' % (b"y" * 5000)
    middles = [
        ("header", header()),
        ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')),
        *in_pieces("s2c", giant, 1000),
    ]
    path = tmp_path / "a.mcpcap"
    path.write_bytes(b"".join(lines(middles)))
    text = mcpproxy("check", "--rule", "id/type-changed", path).stdout.decode()
    assert "request 1 is answered" in text
    assert "yyy" not in text


# ---- a capture that is being recorded


def test_follow_tells_findings_as_they_come(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "growing.mcpcap")
    try:
        growing.add(("header", header()), ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')))
        with started("check", "--follow", *IDS, growing.file.path) as process:
            output = Output(process)
            growing.add(("frame", frame("s2c", b'{"jsonrpc":"2.0","id":"1","result":{}}')))
            output.wait_for("mcpproxy rule id/type-changed")
            growing.add(CLOSE)
            growing.end()
            assert "1 error in 2 frames of 1 session." in output.rest()
            assert process.wait(DEADLINE_S) == 1
    finally:
        growing.end()


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (
            "junit",
            [
                b'  <testsuite name="text.mcpcap" tests="1" failures="0" errors="1" skipped="0">',
                b'      <error message="cannot read text.mcpcap: it contains no capture records" type="unre',
            ],
        ),
        ("sarif", [b'"executionSuccessful":false', b"cannot read text.mcpcap: it contains no capture records"]),
        (
            "github",
            [b"::error title=cannot be checked,file=text.mcpcap::cannot read text.mcpcap: it contains no capture"],
        ),
    ],
)
def test_a_capture_that_cannot_be_read_fails_in_every_report(
    capture: Path, tmp_path: Path, form: str, told: list[bytes]
) -> None:
    (tmp_path / "text.mcpcap").write_bytes(b"text\n")
    (tmp_path / "good.mcpcap").write_bytes(capture.read_bytes())
    done = mcpproxy("check", "--format", form, "text.mcpcap", "good.mcpcap", cwd=tmp_path)
    assert done.returncode == 2
    assert [part for part in told if part not in done.stdout] == []


@pytest.mark.parametrize("form", ["text", "sarif"])
def test_ctrl_c_ends_follow_with_the_sums(tmp_path: Path, form: str) -> None:
    growing = Growing(tmp_path / "growing.mcpcap")
    try:
        growing.add(("header", header()), ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')))
        growing.add(("frame", frame("s2c", b'{"jsonrpc":"2.0","id":"1","result":{}}')))
        with started("check", "--follow", "--format", form, *IDS, growing.file.path) as process:
            output = Output(process)
            output.wait_for("type-changed")
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 130
            rest = output.rest()
            assert ("1 error in 2 frames of 1 session." if form == "text" else '"executionSuccessful":true') in rest
            assert process.stderr is not None
            assert process.stderr.read() == b""
    finally:
        growing.end()


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_a_closed_capture_gives_the_same_followed_or_not(capture: Path, form: str) -> None:
    followed = mcpproxy("check", "--format", form, "--follow", capture)
    assert followed.stdout == mcpproxy("check", "--format", form, capture).stdout


def test_what_is_still_recorded_is_not_blamed_for_what_may_come(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "live.mcpcap")
    try:
        for line in lines(
            [("header", header()), ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'))]
        ):
            file.append(line)
        found = rows(mcpproxy("check", "--json", tmp_path / "live.mcpcap").stdout)
        ended = [row for row in found if row["rule"].startswith(("timeout/", "shutdown/"))]
        assert {row["level"] for row in ended} <= {"note"}
    finally:
        file.close()


# ---- traces


def trace(*frames: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"name": "case", "transport": "stdio", "frames": [*frames], **more}).encode() + b"\n"


CALL = {"dir": "c2s", "raw": '{"jsonrpc":"2.0","id":1,"method":"ping"}'}
TWISTED = {"dir": "s2c", "raw": '{"jsonrpc":"2.0","id":"1","result":{}}'}
DUE = {"rule": "id/type-changed", "frame": 1}


def test_a_case_is_as_expected_or_not() -> None:
    done = mcpproxy("check", "--trace", "-", *IDS, stdin=trace(CALL, TWISTED, expect=[DUE]))
    assert (done.returncode, done.stdout) == (0, b"as expected  case\n1 of 1 case as expected.\n")
    done = mcpproxy("check", "--trace", "-", *IDS, stdin=trace(CALL, TWISTED))
    assert done.returncode == 1
    assert b"unexpected   case\n  unexpected  frame 1  error id/type-changed: request 1" in done.stdout
    done = mcpproxy(
        "check", "--trace", "-", *IDS, stdin=trace(CALL, TWISTED, expect=[DUE, {"rule": "id/null", "frame": 0}])
    )
    assert done.returncode == 1
    assert b"missed       case\n  missed      frame 0  id/null\n0 of 1 case" in done.stdout
    done = mcpproxy("check", "--trace", "-", *IDS, stdin=trace(CALL, TWISTED, expect=[DUE, DUE]))
    assert done.returncode == 1


def test_json_of_a_trace_names_case_and_frame() -> None:
    done = mcpproxy("check", "--trace", "-", "--json", *IDS, stdin=trace(CALL, TWISTED, expect=[DUE]))
    (row,) = rows(done.stdout)
    assert (row["case"], row["rule"], row["level"], row["frame"], row["related"]) == (
        "case",
        "id/type-changed",
        "error",
        1,
        [0],
    )


def test_json_of_a_trace_says_on_stderr_which_case_is_not_as_expected() -> None:
    due = [{"rule": "id/null", "frame": 0}]
    cases = trace(CALL, TWISTED, expect=[DUE]) + trace(CALL, TWISTED, name="twice\n", expect=due)
    done = mcpproxy("check", "--trace", "-", "--json", *IDS, stdin=cases)
    assert (done.returncode, len(rows(done.stdout))) == (1, 2)
    told = 'unexpected frame 1 error id/type-changed: request 1 is answered as "1": the id changed its JSON type'
    assert done.stderr.decode() == f"mcpproxy: twice\\n: missed frame 0 id/null; {told}\n"


def test_the_corpus_gives_what_its_own_test_finds() -> None:
    path = CORPUS / "id.ndjson"
    done = mcpproxy("check", "--trace", path, "--json")
    assert done.returncode == 0
    told: dict[str, list[tuple[str, int]]] = {}
    for row in rows(done.stdout):
        if row["level"] != "note":
            told.setdefault(row["case"], []).append((row["rule"], row["frame"]))
    cases: list[Case] = read(path)
    for case in cases:
        assert sorted(told.get(case.name, [])) == sorted(grave(checked(case)).elements()), case.name


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense\n", "line 1: not JSON"),
        (b"", "it contains no case"),
        (trace(CALL, expect=7), "line 1: expected a list of objects with `rule` and `frame` in `expect`"),
        (trace(CALL, expect=[DUE, None]), "in `expect`"),
        (trace(CALL, notes=[{"rule": 1, "frame": 1}]), "in `notes`"),
        (trace(CALL, expect=[{"rule": "id/nul", "frame": 0}]), "there is no rule id/nul; perhaps id/null"),
    ],
)
def test_what_is_no_trace_is_told(line: bytes, reason: str) -> None:
    done = mcpproxy("check", "--trace", "-", stdin=line)
    assert done.returncode == 2
    assert reason in done.stderr.decode()


def test_a_wrong_line_keeps_no_case_from_being_checked() -> None:
    done = mcpproxy("check", "--trace", "-", *IDS, stdin=b"nonsense\n" + trace(CALL, TWISTED, expect=[DUE]))
    assert done.returncode == 2
    assert done.stdout == b"as expected  case\n1 of 1 case as expected.\n"


@pytest.mark.parametrize(
    "more", [["x.mcpcap"], ["--baseline", "x"], ["--follow"], ["--filter", "x"], ["--format", "sarif"]]
)
def test_traces_go_with_little_else(more: list[str]) -> None:
    done = mcpproxy("check", "--trace", "-", *more, stdin=trace(CALL))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--trace can only be combined with" in done.stderr


# ---- a rule that fails


def test_a_rule_that_fails_is_told_and_hides_nothing(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.rules.id import UnknownResponse

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(UnknownResponse, "on_response", fail)
    examination = CaptureCheck(capture, CheckOptions(lambda rule: rule.startswith("id/")))
    found = [one for _, several in examination.examine_to_end() for one in several]
    assert [one.finding.rule for one in found] == ["id/type-changed"] * 3
    assert dict(examination.outcome.faults) == {"id/unknown-response": "KeyError: 'a bug'"}


SESSION: list[tuple[Direction, bytes]] = [
    (
        "c2s",
        (
            b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
            b'"clientInfo":{"name":"a","version":"1"}}}'
        ),
    ),
    (
        "s2c",
        (
            b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
            b'"serverInfo":{"name":"b","version":"1"}}}'
        ),
    ),
    ("c2s", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
    ("c2s", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
    ("s2c", b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'),
]


@pytest.mark.parametrize("at", range(1, 6))
def test_a_record_that_is_gone_makes_a_capture_damaged_and_accuses_nobody(at: int, tmp_path: Path) -> None:
    middles = [("header", header()), *(("frame", frame(side, raw)) for side, raw in SESSION)]
    whole = lines([*middles, ("close", members(ending="client", status=0, totals={}))])
    left = tmp_path / "left.mcpcap"
    left.write_bytes(b"".join([*whole[:at], *whole[at + 1 :]]))
    done = mcpproxy("check", left)
    assert (done.returncode, done.stdout) == (2, b"No findings in 4 frames of 1 session.\n")
    assert done.stderr.endswith(b"1 record is missing; `mcpproxy verify` says which\n")


def test_records_that_a_later_gap_accounts_for_are_not_missing() -> None:
    done = mcpproxy("check", Path(__file__).parents[2] / "corpus" / "captures" / "gaps.mcpcap")
    assert (done.returncode, done.stderr) == (0, b"")
