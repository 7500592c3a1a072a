"""`mcpproxy replay`: a capture's client against a real process, and what its exit code says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.reading import read
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import ROOT, wait_until
from tests.http_harness import Upstream, answering, free_port
from tests.mcpproxy.cli.typed import mcpproxy, started
from tests.mcpproxy.replay.recordings import write_recording

SERVER = (sys.executable, str(ROOT / "tests" / "peers" / "chooser.py"))


SILENT = (sys.executable, "-c", "import sys; sys.stdin.read()")


def replay(folder: Path, old: Path, *words: str | Path, token: str = "") -> "subprocess.CompletedProcess[bytes]":
    """Replay a capture; the new one is below `folder`."""
    captures = str(folder / "captures")
    return mcpproxy("replay", old, *words, MCPPROXY_CAPTURES=captures, HOME=str(folder), COLUMNS="200", TOKEN=token)


def new_captures(folder: Path) -> list[Path]:
    """Returns the captures of replays."""
    return sorted((folder / "captures").rglob("*.mcpcap"))


@pytest.mark.costly("starts a recorder and a server")
def test_the_same_server_is_equal_although_it_chooses_cursors_and_ids_anew(tmp_path: Path) -> None:
    done = replay(tmp_path, write_recording(tmp_path), "--no-findings", "--", *SERVER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"Nothing changed in 3 tools, 1 capability, 8 outcomes, 4 results of equal requests")
    (new,) = new_captures(tmp_path)
    assert new.parent.name == "chooser-replay"
    assert b"sent 9 messages; recorded to " + os.fsencode(new) in done.stderr
    assert [step.end for step in read(new).to_end()][-1] == "closed"


def test_nothing_is_started_if_a_call_may_change_something(tmp_path: Path) -> None:
    old, account = write_recording(tmp_path, saves=True), tmp_path / "account"
    done = replay(tmp_path, old, "--", *SERVER, "--account", str(account))
    assert done.returncode == 2
    assert b"the tool save: 1, first in frame 18" in done.stderr
    assert b"--yes" in done.stderr
    assert done.stdout == b""
    assert not account.exists()
    assert new_captures(tmp_path) == []


def test_what_fails_is_in_each_format_and_in_the_file(tmp_path: Path) -> None:
    old = write_recording(tmp_path, saves=True)
    for form, word in (
        ("json", b'"is_failure":true'),
        ("junit", b"<error "),
        ("github", b"::error "),
        ("markdown", b"#"),
    ):
        done = replay(tmp_path, old, "--format", form, "--", *SERVER)
        assert done.returncode == 2
        assert word in done.stdout
        assert b"nothing was sent" in done.stdout
        assert b"--only 'not name:save'" in done.stderr
    file = tmp_path / "result.sarif"
    done = replay(tmp_path, old, "--format", "sarif", "-o", file, "--", *SERVER)
    assert done.returncode == 2
    assert '"executionSuccessful":false' in file.read_text().replace(" ", "")
    again = replay(tmp_path, old, "--yes", "--format", "sarif", "-o", file, "--", *SERVER)
    assert again.returncode == 73
    assert new_captures(tmp_path) == []


@pytest.mark.costly("starts a recorder and a server, three times")
def test_it_is_sent_with_yes_and_left_out_by_a_filter(tmp_path: Path) -> None:
    old, account = write_recording(tmp_path, saves=True), tmp_path / "account"
    command = ("--no-findings", "--", *SERVER, "--account", str(account))
    filtered = replay(tmp_path, old, "--only", "name:find", *command)
    assert filtered.returncode == 0, filtered.stderr
    assert b'"save"' not in account.read_bytes()
    assert account.read_bytes().count(b'"find"') == 3
    assert replay(tmp_path, old, "--only", "not name:save", *command).returncode == 0
    assert b'"save"' not in account.read_bytes()
    sent = replay(tmp_path, old, "--yes", *command)
    assert sent.returncode == 0, sent.stderr
    assert account.read_bytes().count(b'"save"') == 1


@pytest.mark.costly("starts a recorder and a server, three times")
def test_another_answer_and_a_crash_are_differences(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    changed = replay(tmp_path, old, "--no-findings", "--", *SERVER, "--answer", "lost")
    assert changed.returncode == 1
    assert b"value/text-changed" in changed.stdout
    annotated = replay(tmp_path, old, "--no-findings", "--format", "github", "--", *SERVER, "--answer", "lost")
    files = {line.partition("file=")[2].partition("::")[0] for line in annotated.stdout.decode().splitlines()[:-1]}
    assert {file.partition(",")[0] for file in files} == {str(old)}
    assert all(",line=" in file for file in files)
    crashed = replay(tmp_path, old, "--", *SERVER, "--crash-on", "find")
    assert crashed.returncode == 1
    assert b"2 messages not sent: the server closed its stdout" in crashed.stderr


@pytest.mark.costly("starts a recorder, twice")
def test_without_an_answer_to_the_handshake_there_is_nothing_to_compare(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    silent = replay(tmp_path, old, "--timeout", "200ms", "--", *SILENT)
    assert silent.returncode == 2
    assert b"nothing to compare: initialize was not answered in time" in silent.stderr
    absent = replay(tmp_path, old, "--", "no-such-command-at-all")
    assert absent.returncode == 2
    assert b"cannot run no-such-command-at-all" in absent.stderr
    assert silent.stdout == absent.stdout == b""
    in_junit = replay(tmp_path, old, "--format", "junit", "--", "no-such-command-at-all")
    assert in_junit.returncode == absent.returncode
    assert b"<error " in in_junit.stdout
    assert in_junit.stdout.count(b"cannot run no-such-command-at-all: there is no such command in PATH") == 1


@pytest.mark.costly("starts a recorder and a server that sends without end")
def test_a_server_that_sends_without_end_ends_the_replay(tmp_path: Path) -> None:
    done = replay(tmp_path, write_recording(tmp_path), "--", *SERVER, "--flood", "--hang-on", "find")
    assert done.returncode == 2
    reason = b"the server sent far more than in the recording, over 67.1 MB"
    assert b"messages not sent: " + reason in done.stderr
    assert b"nothing to compare: " + reason in done.stderr
    assert b"BrokenPipeError" not in done.stderr
    assert done.stdout == b""
    (new,) = new_captures(tmp_path)
    assert new.stat().st_size < 400_000_000


@pytest.mark.costly("starts a recorder and a server that sends without end")
def test_a_server_that_asks_without_end_and_reads_nothing_ends_the_replay(tmp_path: Path) -> None:
    done = replay(tmp_path, write_recording(tmp_path), "--", *SERVER, "--pester")
    assert done.returncode == 2
    assert b"the server sent roots/list, 1" in done.stderr
    assert b" messages not sent: the server did not read 10,000 answers to its requests" in done.stderr
    assert b"nothing to compare: the server did not read 10,000 answers" in done.stderr
    assert b"BrokenPipeError" not in done.stderr
    assert done.stdout == b""


@pytest.mark.costly("starts a recorder and a web server")
def test_credentials_are_sent_and_occur_nowhere_else(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    with Upstream(answering(answer)) as upstream:
        secret = "canary-5f1d0c2b7a"
        words = ("--header", "Authorization: Bearer env:TOKEN", "--header", "X-Key: env:TOKEN", upstream.url)
        done = replay(tmp_path, old, *words, token=secret)
        assert f"Bearer {secret}".encode() in upstream.heard()
    assert done.returncode == 2
    assert b"HTTP status 401 without an answer; the credentials of --header were refused" in done.stderr
    assert secret.encode() not in done.stdout + done.stderr
    (new,) = new_captures(tmp_path)
    assert secret.encode() not in new.read_bytes()


@pytest.mark.costly("starts a recorder, twice")
def test_why_there_is_no_server_is_said(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    done = replay(tmp_path, old, f"http://127.0.0.1:{free_port()}/mcp")
    assert done.returncode == 2
    assert b"initialize was not answered: the server cannot be reached: Connection refused" in done.stderr
    absent = replay(tmp_path, old, "--", "no-such-command-at-all")
    assert b"mcpproxy: nothing to compare: cannot run no-such-command-at-all" in absent.stderr
    assert b"the server's stderr" not in absent.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    for output in (tmp_path / "absent" / "result.txt", old, tmp_path):
        assert replay(tmp_path, old, "-o", output, "--", *SERVER).returncode == 73
    assert new_captures(tmp_path) == []


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    for words, reason in (
        ((old,), "the server is missing"),
        ((old, "python"), "a command goes after --"),
        ((old, "http://127.0.0.1:1/", "--", "cat"), "two servers"),
        ((old, "--header", "Authorization: secret-value", "http://127.0.0.1:1/"), "environment variable"),
        ((old, "--header", "Authorization: env:UNSET", "http://127.0.0.1:1/"), "UNSET is not set"),
        ((old, "--header", "Authorization: env:HOME", "--", "cat"), "--header is for a URL"),
        ((old, "--speed", "0", "--", "cat"), "above 0"),
        ((old, "--timeout", "soon", "--", "cat"), "is not a time"),
        ((old, "--only", "nonsense:::", "--", "cat"), "--only"),
        ((tmp_path / "absent.mcpcap", "--", "cat"), "absent"),
    ):
        done = replay(tmp_path, Path(words[0]), *words[1:])
        assert done.returncode == 2, words
        assert reason.encode() in done.stderr, (words, done.stderr)
        assert b"secret-value" not in done.stderr
        assert b"Traceback" not in done.stderr
    assert new_captures(tmp_path) == []


def test_a_folder_is_refused_before_it_is_read_as_mock_does(tmp_path: Path) -> None:
    write_recording(tmp_path)
    for folder in (tmp_path, Path("/")):
        done = replay(tmp_path, folder, "--", *SERVER)
        assert (done.stderr, done.returncode) == (
            f"mcpproxy: {folder} is a folder; name one capture in it\n".encode(),
            2,
        )
        assert done.stderr == mcpproxy("mock", folder).stderr


def test_without_a_capture_nothing_is_sent(tmp_path: Path) -> None:
    old = write_recording(tmp_path)
    for target in (("--", *SILENT), ("http://127.0.0.1:1/",)):
        exists = replay(tmp_path, old, "--capture", old, *target)
        assert exists.returncode == 73
        assert b"it already exists" in exists.stderr
        absent = replay(tmp_path, old, "--capture", tmp_path / "absent" / "new.mcpcap", *target)
        assert absent.returncode == 73
        assert b"cannot create the capture" in absent.stderr
        assert b"recorded to" not in exists.stderr + absent.stderr


@pytest.mark.costly("starts a recorder and a server that hangs")
def test_an_interrupt_ends_the_server_and_leaves_the_capture(tmp_path: Path) -> None:
    old, account = write_recording(tmp_path), tmp_path / "account"
    command = ("replay", str(old), "--", *SERVER, "--hang-on", "find", "--account", str(account))
    with started(*command, MCPPROXY_CAPTURES=str(tmp_path / "captures"), HOME=str(tmp_path)) as process:
        wait_until(lambda: account.exists() and b'"find"' in account.read_bytes(), "the call that hangs")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    (new,) = new_captures(tmp_path)
    assert [step.end for step in read(new).to_end()][-1] == "closed"


@pytest.mark.costly("starts a recorder and a server")
def test_a_recording_that_begins_in_the_middle_can_be_equal(tmp_path: Path) -> None:
    old = CaptureWriter(tmp_path / "late.mcpcap", "chooser", observed_start=False)
    old.call(10, 1, "find", query=1)
    old.answer(20, 1, content=[{"type": "text", "text": "found"}])
    done = replay(tmp_path, old.close(), "--yes", "--no-findings", "--", *SERVER)
    assert done.returncode == 0, done.stderr
    assert b"the recording has no handshake; the replay began with one of its own, on revision" in done.stderr
    assert b"Nothing changed" in done.stdout
