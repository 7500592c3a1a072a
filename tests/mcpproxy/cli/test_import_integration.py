"""`mcpproxy import`: whole captures or none, nothing overwritten, and mistakes reported in one line."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.integrity import inspect
from captures.reader import Capture
from mcpproxy.cli.command_line import grammars
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.harness import DEADLINE_S, frames
from tests.mcpproxy.cli.typed import complaints, mcpproxy

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests/corpus/traces/import.ndjson"
SHARED = ROOT.parent / "shared/protocol/traces.ndjson"
FRAME = b'{"t":0,"dir":"c2s","raw":"{}"}\n'


def trace(*names: str) -> bytes:
    """Write a file of small cases."""
    frame = {"dir": "c2s", "raw": "{}"}
    made = [{"name": name, "transport": "stdio", "frames": [frame]} for name in names]
    return b"".join(json.dumps(one).encode() + b"\n" for one in made)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.mcpcap"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(CORPUS, id="corpus"),
        pytest.param(
            SHARED,
            id="protocol",
            marks=pytest.mark.skipif(not SHARED.exists(), reason="the protocol traces are not here"),
        ),
    ],
)
def test_every_case_becomes_a_capture_that_verifies_and_is_shown(tmp_path: Path, path: Path) -> None:
    done = mcpproxy("import", "--from", "trace", path, "-o", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, b"")
    wanted = [one for one in cases(path.read_bytes().splitlines()) if isinstance(one, Case)]
    made = listed(tmp_path / "out")
    assert len(made) == len(wanted) == len(done.stdout.splitlines())
    for name in made:
        assert inspect(Capture(tmp_path / "out" / name)).state == "complete"
    assert mcpproxy("verify", tmp_path / "out").returncode == 0
    shown = mcpproxy("show", tmp_path / "out")
    assert (shown.returncode, complaints(shown)) == (0, b"")
    for one in wanted:
        assert one.name.encode() in shown.stdout
    assert b"damaged" not in shown.stdout


def test_the_lines_written_are_those_of_the_case(tmp_path: Path) -> None:
    mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("x"))
    lines = (tmp_path / "x.mcpcap").read_bytes().splitlines(keepends=True)
    (case,) = cases([trace("x")])
    assert isinstance(case, Case)
    # Each import has its own random number.
    assert lines[1:] == [line for _, line in case.records()][1:]


def test_captures_are_private(tmp_path: Path) -> None:
    mcpproxy("import", "--from", "trace", "-", "-o", tmp_path / "new", stdin=trace("x"))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new/x.mcpcap")]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("../../etc/passwd", "etc-passwd.mcpcap"),
        ("..", "server.mcpcap"),
        ("a b/ü", "a-b.mcpcap"),
        ("call.2", "call-2.mcpcap"),
        ("call.1", "call-1.mcpcap"),
        ("v1.2.beta", "v1.2.beta.mcpcap"),
        ("\x1b]0;x\x07", "0-x.mcpcap"),
    ],
)
def test_a_name_makes_a_harmless_file(tmp_path: Path, name: str, file: str) -> None:
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path / "out", stdin=trace(name))
    assert (done.returncode, done.stderr) == (0, b"")
    assert listed(tmp_path / "out") == [file]
    assert mcpproxy("verify", tmp_path / "out" / file).returncode == 0


def test_one_case_can_be_named(tmp_path: Path) -> None:
    data = trace("a", "b") + b"broken\n"
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, "--case", "b", stdin=data)
    assert (done.returncode, done.stderr, listed(tmp_path)) == (0, b"", ["b.mcpcap"])
    missing = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, "--case", "c", stdin=data)
    assert (missing.returncode, missing.stderr.count(b"\n")) == (2, 1)
    assert b"no conversation named c" in missing.stderr


def test_a_log_without_a_conversation_has_what_its_form_lacks_told(tmp_path: Path) -> None:
    stamp = b"2026-03-11 09:00:00.000 [info] "
    log = stamp + b"Starting server deploy\n" + stamp + b"Connection state: Running\n"
    done = mcpproxy("import", "--from", "vscode", "-", "-o", tmp_path, stdin=log)
    assert (done.returncode, done.stderr.count(b"\n"), listed(tmp_path)) == (2, 1, [])
    assert b"contains no conversation; VS Code logs messages only at the levels debug and trace" in done.stderr


def test_a_wrong_case_is_left_out_and_the_others_are_imported(tmp_path: Path) -> None:
    wrong = b'{"name":"w","transport":"stdio","frames":[{"dir":"c2s","raw":"{}"},{"dir":"up","raw":""}]}\n'
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("a") + wrong + trace("b"))
    assert done.returncode == 2
    assert (
        done.stderr == b"mcpproxy: not imported from -: line 2: frame 1: expected `c2s`, `s2c` or `stderr` in `dir`\n"
    )
    assert listed(tmp_path) == ["a.mcpcap", "b.mcpcap"]


def test_a_file_of_another_format_has_few_mistakes_told(tmp_path: Path) -> None:
    log = json.dumps({"log": {"entries": [{"n": n} for n in range(9)]}}, indent=1).encode()
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=log)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (2, 4)
    assert re.fullmatch(rb"mcpproxy: not imported from -: \d+ more; is it in another format than trace\?", lines[-1])


def test_that_nothing_was_imported_is_told(tmp_path: Path) -> None:
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=b"started\n")
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (
        2,
        b"",
        [b"mcpproxy: nothing was imported from -"],
    )


def test_one_conversation_can_go_into_a_named_file_and_several_cannot(tmp_path: Path) -> None:
    path = tmp_path / "x.mcpcap"
    several = mcpproxy("import", "--from", "trace", "-", "-o", path, stdin=trace("a", "b"))
    expected = f"cannot write {path}: the log contains several conversations, so -o must name a folder\n"
    assert (several.returncode, several.stdout, several.stderr.decode()) == (2, b"", f"mcpproxy: {expected}")
    assert list(tmp_path.iterdir()) == []
    one = mcpproxy("import", "--from", "trace", "-", "-o", path, stdin=trace("a"))
    assert (one.returncode, one.stderr, listed(tmp_path)) == (0, b"", ["x.mcpcap"])


def test_captures_of_one_name_are_numbered(tmp_path: Path) -> None:
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("b", "b-2", "b", "b"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert listed(tmp_path) == ["b-2.mcpcap", "b-3.mcpcap", "b-4.mcpcap", "b.mcpcap"]


def test_what_a_log_lacks_is_told_of_what_was_imported_alone(tmp_path: Path) -> None:
    assert mcpproxy("export", tmp_path / "x.har", ROOT / "tests/corpus/captures/http.mcpcap").returncode == 0
    there = f"{tmp_path}/out/example.com.mcpcap"
    first = mcpproxy("import", "--from", "har", tmp_path / "x.har", "-o", tmp_path / "out")
    assert (first.returncode, first.stdout.startswith(there.encode())) == (0, True), first.stdout
    assert b"do not record" in first.stderr
    done = mcpproxy("import", "--from", "har", tmp_path / "x.har", "-o", tmp_path / "out")
    expected = f"mcpproxy: {there} already exists; choose another folder\n"
    assert (done.returncode, done.stderr.decode()) == (73, expected)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.mcpcap").write_bytes(b"mine")
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("a", "b"))
    assert (done.returncode, done.stderr.count(b"\n")) == (73, 1)
    assert (tmp_path / "a.mcpcap").read_bytes() == b"mine"
    assert mcpproxy("verify", tmp_path / "b.mcpcap").returncode == 0
    done = mcpproxy("import", "--from", "ndjson", "-", "-o", tmp_path / "a.mcpcap", stdin=FRAME)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (73, b"", 1)
    assert (tmp_path / "a.mcpcap").read_bytes() == b"mine"


def test_a_case_never_joins_segments_of_another_capture(tmp_path: Path) -> None:
    CaptureFile(tmp_path / "a.2.mcpcap").close()
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("a"))
    assert (done.returncode, done.stderr.count(b"\n")) == (73, 1)
    assert listed(tmp_path) == ["a.2.mcpcap"]


def test_frames_become_one_capture_named_after_their_file(tmp_path: Path) -> None:
    (tmp_path / "my log.ndjson").write_bytes(FRAME)
    done = mcpproxy("import", "--from", "ndjson", "my log.ndjson", "--output", "out.mcpcap", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(
        r"out\.mcpcap: 3 records, [\d.]+ k?B; `mcpproxy show out\.mcpcap` shows it\n", done.stdout.decode()
    )
    assert Capture(tmp_path / "out.mcpcap").header.members["name"] == "my-log"


def test_frames_go_into_a_new_file_where_a_folder_is_named(tmp_path: Path) -> None:
    done = mcpproxy("import", "--from", "ndjson", "-", "-o", f"{tmp_path}/new/", stdin=FRAME)
    assert done.returncode == 0
    assert len(listed(tmp_path / "new")) == 1


def test_nothing_is_left_of_frames_with_a_mistake(tmp_path: Path) -> None:
    big = json.dumps({"t": 0, "dir": "c2s", "raw": "x" * 3_000_000}).encode() + b"\n"
    done = mcpproxy("import", "--from", "ndjson", "-", "-o", tmp_path / "out.mcpcap", stdin=big + b"{}\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"mcpproxy: cannot import -: line 2: expected text in `raw`, or base64 in `raw_b64`\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["trace", "ndjson"])
@pytest.mark.parametrize("data", [b"", b"\n\n"], ids=["empty", "blank"])
def test_an_empty_file_is_told(tmp_path: Path, form: str, data: bytes) -> None:
    done = mcpproxy("import", "--from", form, "-", "-o", tmp_path / "out.mcpcap", stdin=data)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert not (tmp_path / "out.mcpcap").is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["x.ndjson", "-o", "out"],
        ["--from", "har", "x", "-o", "out"],
        ["--from", "trace", "-o", "out"],
        ["--from", "trace", "missing", "-o", "out"],
        ["--from", "trace", ".", "-o", "out"],
        ["--from", "trace", "a", "b", "-o", "out"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_makes_nothing(tmp_path: Path, words: list[str]) -> None:
    done = mcpproxy("import", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_looks_like_another_file_is_refused_unless_it_is_a_folder(tmp_path: Path) -> None:
    done = mcpproxy("import", "--from", "trace", "-", "-o", "x.json", stdin=trace("a"), cwd=tmp_path)
    expected = b"mcpproxy: -o x.json: end the name of a file with .mcpcap, or of a folder with /\n"
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (2, expected, [])
    for output in ("x.json/", "x.json"):
        done = mcpproxy(
            "import", "--from", "trace", "-", "-o", output, stdin=trace(output.replace("/", "1")), cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert len(listed(tmp_path / "x.json")) == 2


def test_only_a_log_of_which_nothing_could_be_read_may_be_in_another_format(tmp_path: Path) -> None:
    (tmp_path / "a.mcpcap").write_bytes(b"mine")
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace("a") + b"{}\n" * 5)
    assert done.returncode == 73
    assert done.stderr.endswith(b": 2 more\n")


def test_the_command_that_is_named_shows_the_capture(tmp_path: Path) -> None:
    done = mcpproxy("import", "--from", "trace", "-", "-o", "my logs/", stdin=trace("a"), cwd=tmp_path)
    assert done.stdout.endswith(b"; `mcpproxy show 'my logs/a.mcpcap'` shows it\n")
    done = mcpproxy("import", "--from", "trace", "-", stdin=trace("a"), MCPPROXY_CAPTURES=str(tmp_path / "captures"))
    assert done.stdout.endswith(b"; `mcpproxy tui` shows it\n")


def test_a_folder_is_not_a_log(tmp_path: Path) -> None:
    done = mcpproxy("import", ".", cwd=tmp_path)
    assert done.stderr == b"mcpproxy: cannot import .: it is a folder; name a file in it\n"


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path / "file/out", stdin=trace("a", "b"))
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (73, b"", 1)


def test_a_stdout_that_nobody_reads_does_not_end_the_import(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(trace(*(f"case{number}" for number in range(300))))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mcpproxy", "import", "--from", "trace", f"{tmp_path}/in", "-o", f"{tmp_path}/out"]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr, len(listed(tmp_path / "out"))) == (0, b"", 300)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it")
def test_a_stdout_that_is_full_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(trace("a", "b"))
    command = [sys.executable, "-m", "mcpproxy", "import", "--from", "trace", f"{tmp_path}/in", "-o", f"{tmp_path}/out"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE_S)
    assert (done.returncode, listed(tmp_path / "out")) == (2, ["a.mcpcap", "b.mcpcap"])
    assert done.stderr.startswith(b"mcpproxy: the captures were written, but cannot be listed on stdout: ")


def test_captures_that_cannot_be_created_are_counted(tmp_path: Path) -> None:
    names = [f"case{number}" for number in range(9)]
    for name in names:
        (tmp_path / f"{name}.mcpcap").write_bytes(b"")
    done = mcpproxy("import", "--from", "trace", "-", "-o", tmp_path, stdin=trace(*names))
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), lines[-1]) == (73, 4, b"mcpproxy: cannot create 6 more captures")


def test_an_output_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"")
    for output in ("", "x.txt", os.devnull):
        done = mcpproxy("import", "--from", "trace", "-", "-o", output, cwd=tmp_path, stdin=trace("a"))
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
        assert b"-o must end in .mcpcap, or name a folder" in done.stderr


def test_a_closed_stdin_is_told(tmp_path: Path) -> None:
    command = f'exec "$0" -m mcpproxy import --from trace - -o "{tmp_path}/out" <&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


SAMPLES = ROOT / "tests/corpus/imports"


def test_the_form_is_recognised_and_captures_go_where_run_puts_them(tmp_path: Path) -> None:
    log = SAMPLES / "mcp-tape.jsonl"
    captures = str(tmp_path / "captures")
    for stdin, file in ((b"", str(log)), (log.read_bytes(), "-")):
        done = mcpproxy("import", file, stdin=stdin, MCPPROXY_CAPTURES=captures)
        assert (done.returncode, done.stderr.count(b"\n")) == (0, 1), done.stderr
        assert re.match(
            rf"{tmp_path}/captures/files/20261120T101502Z-[0-9a-f]{{4}}\.mcpcap: 8 rec", done.stdout.decode()
        )
    listed_captures = mcpproxy("ls", MCPPROXY_CAPTURES=captures)
    assert listed_captures.stdout.count(b"files") == 2


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"Server started\n", "its format is not recognised; choose one with --from: claude-code, "),
        (b"\0" * 100, "its format is not recognised"),
        (
            b'{"jsonrpc":"2.0","name":"a","transport":"stdio","frames":[]}\n',
            "it may be a file with one JSON-RPC message per line (messages) or a trace with one conversation per line",
        ),
        (b"PK\x03\x04....", "it is an archive; unpack it, and import the log in it"),
        (b"\x1f\x8b....", "it is an archive"),
        (b"log".ljust(257, b"\0") + b"ustar\x0000", "it is an archive"),
        ((ROOT / "tests/corpus/captures/http.mcpcap").read_bytes()[:2000], "it is already a capture; `mcpproxy show`"),
    ],
    ids=["empty", "blank", "text", "zeros", "two", "zip", "gzip", "tar", "capture"],
)
def test_what_is_not_one_form_is_refused_and_nothing_is_written(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "x.log").write_bytes(data)
    for file, stdin in (("x.log", b""), ("-", data)):
        done = mcpproxy("import", file, stdin=stdin, cwd=tmp_path, MCPPROXY_CAPTURES=str(tmp_path / "captures"))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
        assert done.stderr.decode().startswith(f"mcpproxy: cannot import {file}: {why}")
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]


def test_a_log_of_another_program_is_read_around_mistakes_and_they_are_named(tmp_path: Path) -> None:
    log = (SAMPLES / "messages.jsonl").read_bytes()
    for encoding in ("utf-8", "utf-16"):
        data = log.replace(b"\n", b"\nnot a message\x1b[31m\n").decode().encode(encoding)
        done = mcpproxy("import", "-", "-o", tmp_path / encoding, stdin=data)
        assert done.returncode == 2
        assert done.stdout.startswith(f"{tmp_path}/{encoding}/stdin.mcpcap: 7 records".encode())
        assert done.stderr.decode().splitlines() == [
            *(f"mcpproxy: not imported from -: line {line}: expected a JSON-RPC message" for line in (2, 4, 6)),
            "mcpproxy: not imported from -: 2 more",
            "mcpproxy: this format has no times, and directions are guessed",
        ]


def test_several_conversations_are_never_written_into_one_file(tmp_path: Path) -> None:
    log = (SAMPLES / "messages.jsonl").read_bytes()
    done = mcpproxy("import", "-", "-o", tmp_path / "x.mcpcap", stdin=log * 2)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, b"", [])
    assert done.stderr.endswith(b"the log contains several conversations, so -o must name a folder\n")


def test_times_that_are_not_exact_never_look_exact(tmp_path: Path) -> None:
    capture = tmp_path / "x.mcpcap"
    assert mcpproxy("import", SAMPLES / "messages.jsonl", "-o", capture).returncode == 0
    assert b"~0 ms" in mcpproxy("show", capture).stdout
    assert b"crossed    about +0.000000 s" in mcpproxy("show", "--frame", "2", capture).stdout
    assert b"after about 0 ms" in mcpproxy("show", "--frame", "2", capture).stdout
    rows = mcpproxy("query", "--format", "csv", "select count(p50_ms), count(answered) from latency", capture).stdout
    assert rows.splitlines()[1:] == [b"0,2"]


def test_a_message_that_is_cut_stays_so_in_a_redacted_copy(tmp_path: Path) -> None:
    log = (SAMPLES / "messages.jsonl").read_bytes()[:-10]
    assert mcpproxy("import", "-", "-o", tmp_path / "x.mcpcap", stdin=log).returncode == 0
    assert mcpproxy("share", tmp_path / "x.mcpcap", "-o", tmp_path / "y.mcpcap").returncode == 0
    for name in ("x.mcpcap", "y.mcpcap"):
        last = frames(tmp_path / name)[-1]
        assert (last.verdict.kind, last.whole, last.is_partial, last.time_is_exact) == ("unjudged", False, True, False)
        assert mcpproxy("check", tmp_path / name).returncode == 0
        assert b"unjudged, unfinished" in mcpproxy("show", tmp_path / name).stdout


def test_any_file_is_offered_for_completion() -> None:
    (command,) = [command for command in grammars() if command.name == "import"]
    assert command.operands == "files"
    assert {option.names[-1]: option.values for option in command.options} == {
        "--help": "none",
        "--from": "words",
        "--output": "paths",
        "--case": "text",
    }


def test_a_capture_says_from_what_it_was_imported(tmp_path: Path) -> None:
    mcpproxy("import", SAMPLES / "cursor.log", "-o", tmp_path / "x.mcpcap")
    info = mcpproxy("info", tmp_path / "x.mcpcap").stdout.decode()
    assert re.search(r"^imported    from a(?: log of)? Cursor", info, re.MULTILINE)
    assert "recorded by" not in info
    assert b": complete, imported, " in mcpproxy("verify", tmp_path / "x.mcpcap").stdout
    text = mcpproxy("show", "--format", "markdown", tmp_path / "x.mcpcap").stdout.decode()
    assert "does not name itself" not in text
    assert re.search(r"from a(?: log of)? Cursor", text)
