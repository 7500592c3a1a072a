"""`mcpproxy show --follow` while a recorder writes."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from captures.file import CaptureFile
from captures.record import members, seal
from tests.captures.samples import frame, header, lines
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import complaints, mcpproxy, started

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}'
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
CLOSE = ("close", members(ending="server", status=0, totals={}))
MIDDLES = [("header", header()), *(("frame", frame("c2s", CALL % n)) for n in range(1, 6)), CLOSE]


def numbers(output: str) -> list[int]:
    return [json.loads(line)["seq"] for line in output.split("\n")[:-1]]


class Growing:
    """A capture that a recorder holds open."""

    def __init__(self, path: Path) -> None:
        self.file = CaptureFile(path)
        self.seq = 0
        self.open = True

    def add(self, *middles: tuple[str, bytes]) -> None:
        for line in lines(middles, self.seq):
            self.file.append(line)
            self.seq += 1

    def add_at(self, seconds: int, middle: tuple[str, bytes]) -> None:
        """Add a record with a later time."""
        self.file.append(seal(self.seq, seconds * 10**9, *middle))
        self.seq += 1

    def end(self) -> None:
        """Release the file, as a recorder does."""
        if self.open:
            self.open = False
            self.file.close()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    made = Growing(tmp_path / "growing.mcpcap")
    made.add(*MIDDLES[:3])
    yield made
    made.end()


class Output:
    """The output of a process, as it arrives."""

    def __init__(self, process: "subprocess.Popen[bytes]", stream: IO[bytes] | None = None) -> None:
        """Read stdout, or another stream."""
        said = stream or process.stdout
        assert said is not None
        self._fd = said.fileno()
        self.text = ""

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + DEADLINE_S
        while text not in self.text:
            ready, _, _ = select.select([self._fd], [], [], max(0, until - time.monotonic()))
            assert ready, f"no {text!r} in {self.text!r}"
            chunk = os.read(self._fd, 65536)
            assert chunk, f"ended without {text!r}: {self.text!r}"
            self.text += chunk.decode()

    def rest(self) -> str:
        while chunk := os.read(self._fd, 65536):
            self.text += chunk.decode()
        return self.text


def test_follow_prints_what_comes_until_the_recorder_is_gone(growing: Growing) -> None:
    with started("show", "--follow", growing.file.path) as process:
        output = Output(process)
        output.wait_for("#2")
        growing.add(("frame", frame("s2c", ANSWER % 1)))
        output.wait_for("←  tools/call #1")
        growing.add(CLOSE)
        growing.end()
        assert "1 request unanswered" in output.rest()
        assert process.wait(DEADLINE_S) == 0


def test_follow_with_tail_begins_with_the_last_lines(growing: Growing) -> None:
    with started("show", "--follow", "--tail", "1", "--json", growing.file.path) as process:
        output = Output(process)
        output.wait_for("\n")
        assert numbers(output.text) == [2]
        growing.add(CLOSE)
        output.wait_for('"close"')
        growing.end()
        assert numbers(output.rest()) == [2, 3]
        assert process.wait(DEADLINE_S) == 0


def test_follow_with_a_tail_of_nothing_begins_with_what_comes(growing: Growing) -> None:
    with started("show", "--follow", "--tail", "0", "--json", growing.file.path) as process:
        output = Output(process)
        until = time.monotonic() + DEADLINE_S
        # Records written before the command has caught up count as old, so one record may not be enough.
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.05)[0]:
            assert time.monotonic() < until, "nothing that came was printed"
            growing.add(MIDDLES[3])
        growing.add(CLOSE)
        growing.end()
        printed = numbers(output.rest())
        assert printed[0] > 2
        assert printed == list(range(printed[0], growing.seq))
        assert process.wait(DEADLINE_S) == 0


def test_follow_with_limit_ends_by_itself(growing: Growing) -> None:
    with started("show", "-f", "--limit", "4", "--json", growing.file.path) as process:
        output = Output(process)
        output.wait_for('"seq":2')
        growing.add(MIDDLES[3], MIDDLES[4])
        assert numbers(output.rest()) == [0, 1, 2, 3]
        assert process.wait(DEADLINE_S) == 0


def test_follow_of_a_closed_capture_is_the_same_as_show(growing: Growing) -> None:
    growing.add(*MIDDLES[3:])
    growing.end()
    capture = growing.file.path
    assert mcpproxy("show", "-f", "--json", capture).stdout == mcpproxy("show", "--json", capture).stdout
    assert mcpproxy("show", "-f", capture).stdout == mcpproxy("show", capture).stdout


CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
FAILED = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"no"}}'
REST = [
    ("frame", frame("c2s", CALL % 3)),
    ("frame", frame("s2c", ANSWER % 1)),
    ("frame", frame("s2c", FAILED % 3)),
    ("frame", frame("c2s", CANCEL % 2)),
    ("frame", frame("c2s", CALL % 4)),
]
"""After requests 1 and 2, records 1 and 2: 1 is answered, 2 is abandoned, 3 fails, 4 waits."""


def grow(growing: Growing) -> None:
    growing.add(*REST[:3])
    for middle in REST[3:]:  # request 2 was abandoned after a minute
        growing.add_at(60, middle)


def selected(path: Path, expression: str) -> list[int]:
    done = mcpproxy("show", "--json", "--filter", expression, path)
    assert done.returncode == 0, done.stderr
    return numbers(done.stdout.decode())


def test_what_waits_and_what_has_failed_in_a_capture_that_grows_and_in_a_closed_one(growing: Growing) -> None:
    grow(growing)
    path = Path(growing.file.path)
    assert selected(path, "has:waiting") == [7]
    assert selected(path, "has:failure") == [2, 5]
    assert selected(path, "has:answer") == [1, 3, 4, 5]
    assert selected(path, "kind:request not has:answer not has:failure") == [7]
    text = mcpproxy("show", "--filter", "has:waiting", path).stdout.decode()
    assert "#4" in text
    growing.add_at(70, CLOSE)
    growing.end()
    assert selected(path, "has:waiting") == []
    assert selected(path, "has:failure") == [2, 5, 7]


@pytest.mark.parametrize("form", ["json", "text"])
def test_follow_shows_a_request_when_it_has_failed(growing: Growing, form: str) -> None:
    command = ("show", "--follow", "--format", form, "--filter", "has:failure", growing.file.path)
    with started(*command) as process:
        grow(growing)
        growing.add_at(70, CLOSE)
        growing.end()
        output, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert all(b" waiting" in line for line in errors.splitlines())
    if form == "json":
        assert numbers(output.decode()) == [5, 2, 7]
    else:
        shown = [line for line in output.decode().splitlines() if "#" in line]
        assert [line[line.index("#") :][:2] for line in shown] == ["#3", "#2", "#4"]


def test_captures_in_which_a_filter_selects_nothing_are_counted_once_at_the_end(
    growing: Growing, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.mcpcap" for name in "ab"]
    for path in paths:
        path.write_bytes(b"".join(lines(MIDDLES)))
    done = mcpproxy("show", "--filter", "has:waiting", paths[0], growing.file.path, paths[1])
    shown = done.stdout.decode()
    assert complaints(done) == b"mcpproxy: no message matches the filter in 2 of 3 captures\n"
    assert not shown.startswith("\n")
    assert [name for name in ("a.mcpcap", "growing.mcpcap", "b.mcpcap") if name in shown] == ["growing.mcpcap"]
    for form in ("text", "json", "markdown"):
        done = mcpproxy("show", "--filter", "has:waiting", "--format", form, *paths)
        assert (done.stdout, complaints(done)) == (b"", b"mcpproxy: no message matches the filter\n"), form


def test_follow_says_where_to_look_for_what_waits(growing: Growing) -> None:
    done = mcpproxy("show", "--follow", "--filter", "has:waiting", growing.file.path)
    assert done.returncode == 2
    assert b"mcpproxy status" in done.stderr
