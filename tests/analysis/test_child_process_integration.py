"""Children that run a module: their pipes, their output in lines, and their end."""

import os
import sys
from pathlib import Path

import pytest

from analysis.child_process import PythonChild
from tests.harness import wait_until

ECHO = """
import os, sys
from analysis.child_process import take_pipes, write_all
def main():
    requests, answers = take_pipes()
    print("what a library prints is no message", flush=True)
    for line in os.fdopen(requests, "rb"):
        write_all(answers, line * 2)
"""
PLACE = """
import json, os
from analysis.child_process import take_pipes, write_all
def main():
    _, answers = take_pipes()
    write_all(answers, json.dumps([sorted(os.environ), os.getcwd()]).encode() + b"\\n")
"""
LONG = """
import os
def main():
    os.write(1, b"x" * 5000)
    os.read(0, 1)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where to write `own_module`, which children can import."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path / "own_module.py"


def test_messages_go_there_and_back_whole(module: Path) -> None:
    module.write_text(ECHO)
    child = PythonChild("own_module")
    try:
        long = "a" * 300_000
        lines = child.lines(1 << 20)
        for message in ("short", long):
            child.send(message)
            assert [next(lines), next(lines)] == [f'"{message}"'.encode()] * 2
        child.send("with another")
        child.close_stdin()
        assert list(lines) == [b'"with another"'] * 2
        assert child.wait() == 0
    finally:
        child.close()


def test_a_bare_child_gets_nothing_of_ours(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.write_text(PLACE)
    monkeypatch.setenv("SECRET", "x")
    child = PythonChild("own_module", bare=True)
    try:
        (line,) = child.lines(1 << 20)
    finally:
        child.close()
    assert b"SECRET" not in line
    assert line.endswith(b', "/"]')
    child = PythonChild("own_module")
    try:
        (line,) = child.lines(1 << 20)
    finally:
        child.close()
    assert b"SECRET" in line
    assert line.endswith(f'"{os.getcwd()}"]'.encode())


def test_a_line_that_never_ends_is_refused(module: Path) -> None:
    module.write_text(LONG)
    child = PythonChild("own_module")
    try:
        with pytest.raises(ValueError, match="a line of more than 1000 bytes"):
            list(child.lines(1000))
    finally:
        child.close()
    assert not child.is_alive


def test_a_killed_child_ends_its_output(module: Path) -> None:
    module.write_text(ECHO)
    child = PythonChild("own_module")
    try:
        child.kill()
        assert list(child.lines(1000)) == []
        assert child.wait() == -9
        with pytest.raises(OSError, match="Broken pipe"):
            child.send("too late")
    finally:
        child.close()


def test_a_fork_leaves_its_parents_child_alone(module: Path) -> None:
    module.write_text(ECHO)
    child = PythonChild("own_module")
    try:
        pid = os.fork()
        if pid == 0:
            child.close()
            os._exit(0)
        os.waitpid(pid, 0)
        lines = child.lines(1000)
        child.send(1)
        assert next(lines) == b"1"
        child.end()
        assert wait_until(lambda: not child.is_alive, "its end")
    finally:
        child.close()
