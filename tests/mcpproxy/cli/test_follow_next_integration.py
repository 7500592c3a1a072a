"""`--follow` on a name: the session being recorded, the next one if there is none, or all sessions in one stream."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members
from tests.captures.samples import frame, header, lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.test_follow_integration import ANSWER, CALL, CLOSE, Growing, Output
from tests.mcpproxy.cli.typed import mcpproxy, started
from tests.mcpproxy.tui.stage import captured

NO_FILE = b'{"jsonrpc":"2.0","id":%d,"result":{"isError":true,"content":[{"type":"text","text":"no file %d"}]}}'


class Recorder(Growing):
    """A session that is being recorded."""

    def __init__(self, root: Path, server: str, number: int) -> None:
        path = root / server / f"20261121T10150{number}Z-000{number}.mcpcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = CaptureFile(path)
        self.seq = 0
        self.open = True
        self.path = path
        self.add(("header", header(name=server)), ("frame", frame("c2s", CALL % number)))


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Callable[[str, int], Recorder]]:
    begun: list[Recorder] = []

    def begin(server: str, number: int) -> Recorder:
        begun.append(Recorder(tmp_path / "captures", server, number))
        return begun[-1]

    yield begin
    for one in begun:
        one.end()


@pytest.fixture
def following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The captures directory; it has one session of `files`, which ended long ago."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    captured(tmp_path / "captures", "files", stamp="20261101T101502Z-0bad")
    return tmp_path / "captures"


def start(*arguments: str, captures: Path):  # type: ignore[no-untyped-def]
    return started(*arguments, MCPPROXY_CAPTURES=str(captures))


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("name", [["files"], ["nobody-yet"], []], ids=" ".join)
def test_a_name_without_a_live_session_waits_for_the_next(
    following: Path, recorder: Callable[[str, int], Recorder], command: str, name: list[str]
) -> None:
    more = ["--fail-on", "never"] if command == "check" else []
    with start(command, "--follow", *more, *name, captures=following) as process:
        told = Output(process, process.stderr)
        unknown = ", which has no captures yet" if name == ["nobody-yet"] else ""
        told.wait_for(
            "waiting for the next session" + (f" of {name[0]}" if name else "") + unknown + "; press Ctrl-C to stop"
        )
        session = recorder(name[0] if name else "files", 7)
        told.wait_for(f"following {session.path}")
        session.add(("frame", frame("s2c", ANSWER % 7)), CLOSE)
        session.end()
        output = Output(process).rest()
        assert process.wait(DEADLINE_S) == 0
        assert ("tools/call #7" if command == "show" else "2 frames of 1 session") in output


def test_a_file_that_is_made_but_not_yet_locked_has_not_begun(
    following: Path, recorder: Callable[[str, int], Recorder]
) -> None:
    with start("show", "--follow", "git", captures=following) as process:
        told = Output(process, process.stderr)
        told.wait_for("waiting for the next session of git")
        made = following / "git" / "20261121T101500Z-0000.mcpcap"
        made.parent.mkdir()
        made.touch()
        session = recorder("git", 7)
        told.wait_for("following ")
        session.add(CLOSE)
        session.end()
        assert "tools/call #7" in Output(process).rest()
        assert process.wait(DEADLINE_S) == 0
        assert str(made) not in told.text


def test_a_name_means_its_live_session(following: Path, recorder: Callable[[str, int], Recorder]) -> None:
    session = recorder("files", 3)
    captured(following, "files", stamp="20261122T101502Z-0bad")
    with start("show", "--follow", "files", captures=following) as process:
        Output(process, process.stderr).wait_for(f"following {session.path}")
        session.add(CLOSE)
        session.end()
        assert "tools/call #3" in Output(process).rest()
        assert process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_all_servers_are_one_stream(following: Path, recorder: Callable[[str, int], Recorder], form: str) -> None:
    first = recorder("files", 1)
    with start("show", "--follow", "--all", "--format", form, captures=following) as process:
        output = Output(process)
        output.wait_for("files 0001  " if form == "text" else f'"path":"{first.path}"')
        second = recorder("git", 2)
        output.wait_for("git 0002  " if form == "text" else f'"path":"{second.path}"')
        first.add(("frame", frame("s2c", ANSWER % 1)))
        output.wait_for("← " if form == "text" else '"dir":"s2c"')
        first.end()
        second.add(("frame", frame("s2c", ANSWER % 2)))
        output.wait_for("tools/call #2 add" if form == "text" else '"id":2,"size":48')
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    if form == "json":
        rows = [json.loads(line) for line in output.text.splitlines() if line.endswith("}")]
        assert {row["path"] for row in rows} == {str(first.path), str(second.path)}
    else:
        # The column is as wide as the longest name so far.
        assert {line[:12] for line in output.text.splitlines()[:-1]} == {"files 0001  ", "git 0002    "}
        assert max(map(len, output.text.splitlines())) <= 80, "as wide as COLUMNS says"
    assert "T101502Z-0bad" not in output.text


def test_lines_of_a_stream_are_aligned_whatever_servers_are_called(
    following: Path, recorder: Callable[[str, int], Recorder]
) -> None:
    sessions = [recorder(name, number) for number, name in enumerate(("git", "filesystem-of-work", "mail"), 1)]
    with start("show", "--follow", "--all", captures=following) as process:
        output = Output(process)
        for number in (1, 2, 3):
            output.wait_for(f"tools/call #{number} add")
        sessions.append(recorder("server-with-a-longer-name", 4))
        output.wait_for("tools/call #4")
        sessions.append(recorder("b", 5))
        output.wait_for("tools/call #5 add")
        for session in sessions:
            session.end()
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    calls = [line for line in output.text.splitlines() if "→  tools/call" in line]
    assert len({line.index("→") for line in calls[:3]}) == 1
    # A very long name is truncated, and does not push the other columns to the right.
    assert calls[3].startswith("server-with-a-long… 0004  ")
    assert calls[3].index("→") == calls[4].index("→") == calls[0].index("→") + 1
    assert max(map(len, output.text.splitlines())) <= 80


@pytest.mark.parametrize("columns", ["60", "80", ""])
def test_the_label_of_a_line_leaves_room_for_its_outcome(
    following: Path, recorder: Callable[[str, int], Recorder], columns: str
) -> None:
    names = ("a", "git", "files-and-folders", "a-server-name-that-is-really-long-indeed")
    for number, name in enumerate(names, 1):
        recorder(name, number).add(("frame", frame("s2c", NO_FILE % (number, number))))
    environment = {"MCPPROXY_CAPTURES": str(following), "COLUMNS": columns}
    with started("show", "--follow", "--all", **environment) as process:
        output = Output(process)
        for number in (1, 2, 3, 4):
            output.wait_for(f"no file {number}")
        process.send_signal(signal.SIGINT)
        output.rest()
        assert process.wait(DEADLINE_S) == 130
    responses = [line for line in output.text.splitlines() if "←  " in line]
    assert [line.count("  tool error") for line in responses] == [1] * 4
    assert len({line.index("←") for line in responses}) == 1
    assert any("… 0004  " in line for line in responses)
    if columns:
        assert max(map(len, output.text.splitlines())) <= int(columns)


def test_a_limit_ends_a_stream(following: Path, recorder: Callable[[str, int], Recorder]) -> None:
    recorder("files", 1)
    with start("show", "--follow", "--all", "--limit", "1", captures=following) as process:
        Output(process).wait_for("tools/call #1")
        recorder("git", 2)
        assert process.wait(DEADLINE_S) == 0


def test_what_can_never_be_followed_is_refused(following: Path) -> None:
    environment = {"MCPPROXY_CAPTURES": str(following)}
    assert b"called *" in mcpproxy("show", "--follow", "*", **environment).stderr  # type: ignore[arg-type]
    done = mcpproxy("check", "--follow", "--all", **environment)  # type: ignore[arg-type]
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--follow checks a single session" in done.stderr


def test_a_header_that_is_not_written_yet_is_waited_for(following: Path) -> None:
    with start("show", "--follow", "late", captures=following) as process:
        told = Output(process, process.stderr)
        told.wait_for("waiting for the next session of late")
        path = following / "late" / "20261121T101509Z-0009.mcpcap"
        path.parent.mkdir()
        file = CaptureFile(path)
        (opened, close) = lines([("header", header()), ("close", members(ending="server", status=0, totals={}))])
        file.append(opened[:20])
        told.wait_for("waiting")
        file.append(opened[20:])
        told.wait_for(f"following {path}")
        file.append(close)
        file.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_stream_in_a_pipe_is_not_padded(following: Path, recorder: Callable[[str, int], Recorder]) -> None:
    recorder("files", 1).add(("frame", frame("s2c", ANSWER % 1)))
    with started("show", "--follow", "--all", "--limit", "2", MCPPROXY_CAPTURES=str(following), COLUMNS="") as process:
        shown = Output(process).rest()
    assert "tools/call #1 add" in shown
    assert max(map(len, shown.splitlines())) < 200


def test_a_ring_that_turns_is_followed_once(following: Path, recorder: Callable[[str, int], Recorder]) -> None:
    session = recorder("files", 1)
    with started("show", "--follow", "--all", MCPPROXY_CAPTURES=str(following)) as process:
        told, output = Output(process, process.stderr), Output(process)
        output.wait_for("tools/call #1")
        second = CaptureFile(session.path.with_name(session.path.stem + ".2.mcpcap"))
        for line in lines([("header", header(2)), ("frame", frame("c2s", CALL % 5))], session.seq):
            second.append(line)
        session.end()
        session.path.unlink()
        output.wait_for("tools/call #5")
        # A session that begins later is still found.
        recorder("git", 2)
        told.wait_for("/git/")
        second.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    assert told.text.count("following ") == 2
    assert output.text.count("tools/call #5") == 1


@pytest.mark.parametrize("what", ["folder", "fifo"])
def test_what_cannot_be_read_ends_one_capture_and_not_the_stream(
    following: Path, recorder: Callable[[str, int], Recorder], what: str
) -> None:
    bad, good = recorder("bad", 1), recorder("good", 2)
    with started("show", "--follow", "--all", MCPPROXY_CAPTURES=str(following)) as process:
        told, output = Output(process, process.stderr), Output(process)
        output.wait_for("tools/call #1")
        output.wait_for("tools/call #2")
        second = bad.path.with_name(bad.path.stem + ".2.mcpcap")
        second.mkdir() if what == "folder" else os.mkfifo(second)
        bad.end()
        told.wait_for("it is not a regular file")
        good.add(("frame", frame("s2c", ANSWER % 2)))
        output.wait_for("←  tools/call #2")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
