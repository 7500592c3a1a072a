"""A call that hangs in a session being recorded: how `ls`, `status` and `show --follow` report it."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, Place, Session, is_alive, wait_until
from tests.mcpproxy.cli.typed import mcpproxy, started
from tests.mcpproxy.tui.stage import captured

SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["params"]["name"] == "slow":
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": os.getpid()}}
        print(json.dumps(note), flush=True)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}}), flush=True)
"""


def call(id_: int, name: str) -> bytes:
    params = {"name": name, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}).encode() + b"\n"


@pytest.fixture
def session(place: Place) -> Iterator[tuple[Session, Path, int]]:
    """Two slow calls wait, and two others have responses; returned with the capture and the server's pid."""
    run = [place.python, "-P", "-m", "mcpproxy", "run", "--name", "files", "--"]
    session = place.start([*run, place.python, "-c", SERVER], direct=True)
    session.send(call(1, "slow") + call(2, "slow") + call(3, "quick") + call(4, "quick"))
    pid = json.loads(session.line())["params"]["data"]
    for _ in range(3):
        session.line()
    yield session, place.newest(), pid
    session.close_stdin()
    session.end()


def test_ls_and_status_say_how_many_wait_and_how_long(place: Place, session: tuple[Session, Path, int]) -> None:
    _, path, pid = session
    home = Path(place.environment.get("HOME") or place.root / "home")
    words = ["-P", "-m", "mcpproxy", "run", "--name", "files", "--", place.python, "-c", SERVER]
    entry = {"command": place.python, "args": words}
    (home / ".cursor").mkdir(parents=True, exist_ok=True)
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
    environment = {name: value for name, value in place.environment.items() if name.startswith(("XDG", "MCPPROXY"))}
    given = {"cwd": home, "HOME": str(home), **environment}

    def shown(*command: str) -> str:
        done = mcpproxy(*command, **given)  # type: ignore[arg-type]
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    (row,) = map(json.loads, shown("ls", "--json", str(path)).splitlines())
    assert row["waiting"] == 2
    (row,) = map(json.loads, shown("status", "--json").splitlines())
    assert row["waiting"] == 2
    assert row["waiting_ms"] > 0
    wait_until(lambda: "2 requests waiting, the oldest for" in shown("ls", str(path)), "five seconds to pass")
    text = shown("status")
    assert re.search(r"^files: 2 requests waiting, the oldest for \d", text, re.MULTILINE)
    assert re.search(
        r"^  tools/call #1 slow has been waiting for [\d.]+ \w+, since \d\d:\d\d:\d\d; "
        r"the server has sent 4 messages since, and answered 2 later requests \(#3, #4\); "
        rf"its process {pid} is running$",
        text,
        re.MULTILINE,
    )


def test_follow_tells_of_a_call_that_waits_and_whether_its_process_lives(session: tuple[Session, Path, int]) -> None:
    _, path, pid = session
    with started("show", "--follow", path) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline().decode() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert lines[0].startswith("mcpproxy: 2 requests waiting, the oldest for ")
    assert "tools/call #1 slow has been waiting" in lines[1]
    assert lines[2].endswith(f"its process {pid} is running\n")


def test_show_says_in_the_words_of_ls_what_waits(session: tuple[Session, Path, int]) -> None:
    for words in ((), ("--filter", "has:waiting"), ("--format", "markdown", "--filter", "has:waiting")):
        done = mcpproxy("show", *words, session[1])
        assert (done.returncode, done.stderr) == (0, b"")
        shown = done.stdout.decode()
        assert re.search(r"·  still being recorded\b[\s\S]+·  2 requests waiting, the oldest for \d", shown), words
        assert len(re.findall(r"tools/call #[12] slow +waiting for \d", shown)) == 2, words
        assert not re.search(r"\sunanswered", shown), words


def test_a_dead_server_is_reported(place: Place, session: tuple[Session, Path, int]) -> None:
    """The server's recorder was killed with it, and another process still holds the capture."""
    from mcpproxy.report.waits import waits_in

    recorded, path, pid = session
    os.kill(pid, signal.SIGKILL)
    recorded.close_stdin()
    recorded.end()
    assert not is_alive(pid)
    waits = waits_in(path)
    assert [wait.request.id.text for wait in waits.oldest_first] == ["1", "2"]
    assert waits.text(waits.oldest_first[0]).endswith(f"its process {pid} has ended")


@pytest.mark.parametrize("form", ["otlp", "perfetto", "markdown"])
def test_export_selects_what_waits(session: tuple[Session, Path, int], tmp_path: Path, form: str) -> None:
    _, path, _ = session
    out = tmp_path / "out"
    done = mcpproxy("export", path, "--format", form, "--filter", "has:waiting", "-o", out)
    assert (done.returncode, done.stderr) == (0, b"")
    written = out.read_text()
    assert "slow" in written
    assert "quick" not in written
    done = mcpproxy("export", path, "--follow", "--to", "http://127.0.0.1:1", "--filter", "has:waiting")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"`mcpproxy status` lists the requests that are waiting" in done.stderr


def test_export_of_what_has_ended_selects_nothing_that_waits(tmp_path: Path) -> None:
    path = captured(tmp_path)
    done = mcpproxy("export", path, "--format", "otlp", "--filter", "has:waiting", "-o", tmp_path / "out")
    assert b"no message matches the filter" in done.stderr
    done = mcpproxy("export", path, "--format", "otlp", "--filter", "rule:id/*", "-o", tmp_path / "out")
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert b"`export` does not know `rule`" in done.stderr
