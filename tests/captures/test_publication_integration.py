"""`captures.publication`: a capture that a command writes appears as a whole or not at all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from captures.errors import CannotCreate, CaptureError
from captures.integrity import inspect
from captures.listing import find_captures
from captures.publication import MIN_ABANDONED_AGE_S, new_capture
from captures.reader import Capture
from captures.record import members, seal

FRAMES = b"".join(b'{"t":%d,"dir":"c2s","raw":"{}"}\n' % number for number in range(3))
IMPORTS = """
import io, os, signal, sys
import mcpproxy.cli.import_
from mcpproxy.cli import dispatch

def imported(place, left, frames):
    # Every step that a path in the folder takes, before it is taken.
    def step(event, arguments):
        nonlocal left
        if event.startswith(("os.", "open", "shutil.")) and any(place in str(argument) for argument in arguments):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.stdin = io.TextIOWrapper(io.BytesIO(frames))
    sys.stdout = io.StringIO()
    sys.addaudithook(step)
    os._exit(dispatch(["import", "--from", "ndjson", "-", "-o", f"{place}/x.mcpcap"]))

frames = os.fsencode(sys.argv[1])
for line in sys.stdin:
    place, left = line.split()
    if not (pid := os.fork()):
        imported(place, int(left), frames)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Imports frames into one folder after another, each in a fork that is killed after the given number of steps."""
REPLACES = """
import os, signal, sys
from pathlib import Path
from captures.publication import new_capture
from captures.record import members, seal

def replaced(place, left, count):
    def step(event, arguments):
        nonlocal left
        if event.startswith(("os.", "shutil.")) and any(place in str(argument) for argument in arguments):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with new_capture(Path(place, "x.mcpcap"), replace=True) as file:
        for number in range(1, count + 1):
            if number > 1:
                file.begin_next_segment(b"")
            file.append(seal(0, 0, "header", members(format=1, capture="ab" * 16, segment=number, redacted_by="new")))
        sys.addaudithook(step)
    os._exit(0)

for line in sys.stdin:
    place, left, count = line.split()
    if not (pid := os.fork()):
        replaced(place, int(left), int(count))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Replaces a copy by another of `count` segments, in a fork that is killed `left` steps after writing it."""


class Forks:
    """A process that runs one of these scripts, and forks for each line of input."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, place: Path, kill_after: int, *more: int) -> int:
        """Run one fork; returns its exit code, or the negated signal that killed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, (place, kill_after, *more))) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def forking(script: str, *arguments: str) -> Iterator[Forks]:
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Forks(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def importer() -> Iterator[Forks]:
    with forking(IMPORTS, FRAMES.decode()) as forks:
        yield forks


def test_a_kill_at_any_step_leaves_a_whole_capture_or_none(tmp_path: Path, importer: Forks) -> None:
    seen = set()
    for steps in range(100):
        place = tmp_path / str(steps)
        place.mkdir()
        code = importer.run(place, steps)
        there = find_captures(place)
        seen.add(len(there))
        assert there in ([], [place / "x.mcpcap"]), steps
        assert not there or inspect(Capture(there[0])).state == "complete", steps
        if code == 0:
            break
        assert code == -signal.SIGKILL, steps
        if not there:
            for left in place.iterdir():
                os.utime(left, (0, 0))
            assert importer.run(place, 100) == 0, steps
            assert [path.name for path in place.iterdir()] == ["x.mcpcap"], steps
    assert code == 0
    assert steps > 5
    assert seen == {0, 1}


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    with new_capture(tmp_path / "a.mcpcap"):
        (folder,) = tmp_path.iterdir()
        os.utime(folder, (0, 0))
        with new_capture(tmp_path / "b.mcpcap"):
            assert folder.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mcpcap", "b.mcpcap"]


def test_a_folder_that_may_be_new_stays(tmp_path: Path) -> None:
    with new_capture(tmp_path / "a.mcpcap"):
        (name,) = os.listdir(tmp_path)
    (tmp_path / name).mkdir()
    with new_capture(tmp_path / "b.mcpcap"):
        pass
    assert (tmp_path / name).exists()
    os.utime(tmp_path / name, (0, (tmp_path / name).stat().st_mtime - MIN_ABANDONED_AGE_S))
    with new_capture(tmp_path / "c.mcpcap"):
        pass
    assert not (tmp_path / name).exists()


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.mcpcap"
    with pytest.raises(CannotCreate, match="it already exists") as caught, new_capture(target):
        target.write_bytes(b"mine")
    assert str(target) in str(caught.value)
    assert target.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["a.mcpcap"]


def test_an_error_leaves_nothing_and_names_the_target(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught, new_capture(tmp_path / "a.mcpcap"):
        raise OSError(28, "No space left on device")
    assert str(caught.value) == f"cannot write {tmp_path}/a.mcpcap: No space left on device"
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotCreate) as caught, new_capture(tmp_path / "none" / "a.mcpcap"):
        pass
    assert str(caught.value).startswith(f"cannot create {tmp_path}/none/a.mcpcap: No such file")


def test_a_copy_that_could_not_be_replaced_stays_whole(tmp_path: Path) -> None:
    """A recording that appears between the last check and the first link is not deleted, nor is the copy."""
    target = tmp_path / "a.mcpcap"
    header = seal(0, 0, "header", members(format=1, capture="ab" * 16, segment=1, redacted_by="mcpproxy"))
    for name in ("a.mcpcap", "a.2.mcpcap"):
        (tmp_path / name).write_bytes(header)
    recording = seal(0, 0, "header", members(format=1, capture="cd" * 16, segment=1))
    with pytest.raises(CannotCreate, match="it is a recording") as caught, new_capture(target, replace=True):
        target.write_bytes(recording)
    assert str(target) in str(caught.value)
    assert target.read_bytes() == recording
    target.write_bytes(header)
    with pytest.raises(ZeroDivisionError), new_capture(target, replace=True):
        1 / 0  # noqa: B018
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("a.mcpcap", "a.2.mcpcap"), header
    )


def segment_of_a_copy(number: int, by: str) -> bytes:
    return seal(0, 0, "header", members(format=1, capture="ab" * 16, segment=number, redacted_by=by))


def copy_of(count: int, by: str) -> dict[str, bytes]:
    """The files of a redacted copy."""
    return {f"x{f'.{number}' * (number > 1)}.mcpcap": segment_of_a_copy(number, by) for number in range(1, count + 1)}


def test_a_copy_that_a_killed_process_has_put_aside_comes_back(tmp_path: Path) -> None:
    with forking(REPLACES) as forks:
        for before, after in ((3, 2), (2, 3)):
            old, new = copy_of(before, "old"), copy_of(after, "new")
            seen = []
            for steps in range(100):
                place = tmp_path / f"{before}-{after}-{steps}"
                place.mkdir()
                for name, data in old.items():
                    (place / name).write_bytes(data)
                code = forks.run(place, steps, after)
                for left in place.iterdir():
                    os.utime(left, (0, 0))
                with new_capture(place / "other.mcpcap"):
                    pass
                (place / "other.mcpcap").unlink()
                there = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
                assert there in (old, new), (steps, list(there))
                assert len(list(place.iterdir())) == len(there), steps
                seen.append(there == new)
                if code == 0:
                    break
                assert code == -signal.SIGKILL, steps
            assert seen == sorted(seen)
            assert set(seen) == {False, True}
            assert steps > before + after


def test_what_is_put_aside_never_joins_another_capture(tmp_path: Path) -> None:
    """If its name is taken, the capture with that name stays as it is, and the copy put aside is deleted."""
    aside = tmp_path / ".mcpproxy-aside-0"
    aside.mkdir()
    for name, data in copy_of(2, "old").items():
        (aside / name).write_bytes(data)
    os.utime(aside, (0, 0))
    (tmp_path / "x.mcpcap").write_bytes(segment_of_a_copy(1, "new"))
    with new_capture(tmp_path / "other.mcpcap"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["other.mcpcap", "x.mcpcap"]
    assert (tmp_path / "x.mcpcap").read_bytes() == segment_of_a_copy(1, "new")
