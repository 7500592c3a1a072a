"""Child processes that run a module: how they start, exchange messages, and end."""

import json
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from analysis.child_process import PythonChild, Team, _MessageReader, as_json, from_json
from tests.harness import DEADLINE_S, wait_until

ECHO = """
import os
from analysis.child_process import Parent
def main():
    parent = Parent()
    print("what a library prints is no message", flush=True)
    os.write(1, b"nor is this")
    while True:
        message = parent.receive()
        parent.put(message)
        parent.send(message)
"""
PLACE = """
import os
from analysis.child_process import Parent, as_json
def main():
    Parent().send(as_json([sorted(os.environ), os.getcwd(), sorted(map(int, os.listdir("/dev/fd")))]))
"""
RAW = """
import os
def main():
    for piece in %r:
        os.write(1, piece)
        os.read(0, 1)
"""
"""Writes each piece, waiting for a byte of input after each."""
BUSY = """
import time
import tracemalloc
from analysis.child_process import Parent
def main():
    parent = Parent()
    parent.listen(lambda message: parent.send(message) if message != b"nonsense" else 1 / 0)
    while True:
        time.sleep(60)
"""
DEAF = """
import time
import tracemalloc
def main():
    time.sleep(600)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of `own_module`, which children can import."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path / "own_module.py"


def soon() -> float:
    """The deadline of a test, by the monotonic clock."""
    return time.monotonic() + DEADLINE_S


def test_messages_go_there_and_back_whole(module: Path) -> None:
    module.write_text(ECHO)
    with closing(PythonChild("own_module")) as child:
        for message in (b"short", b"", b"\n", bytes(range(256)) * 2000):
            child.send(message)
            assert [child.receive(soon()), child.receive(soon())] == [message] * 2
        for number in range(1000):
            child.send(b"%d" % number)
        child.send_end()
        assert [child.receive(soon()) for _ in range(2000)] == [b"%d" % (number // 2) for number in range(2000)]
        with pytest.raises(BrokenPipeError):
            child.receive(soon())
        assert child.wait() == 0
        child.send(b"too late")
    with pytest.raises(BrokenPipeError):
        child.receive()
    child.send(b"much too late")


def test_what_json_says_comes_back_though_it_is_no_text() -> None:
    message = {"path": os.fsdecode(b"/a/\xff\xe4"), "text": 'a"\n\u2028\ud800é', "of": [None, True, 1.5, 2**70]}
    assert as_json(message).isascii()
    assert from_json(as_json(message)) == message == json.loads(as_json(message))
    with pytest.raises(ValueError, match="ascii"):
        from_json("é".encode())


def test_a_bare_child_gets_nothing_of_ours(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.write_text(PLACE)
    monkeypatch.setenv("SECRET", "x")
    found = []
    held = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        for bare in (True, False):
            with closing(PythonChild("own_module", bare=bare)) as child:
                found.append(from_json(child.receive(soon())))
    finally:
        os.close(held)
    assert ["SECRET" in names for names, _, _ in found] == [False, True]
    assert [place for _, place, _ in found] == ["/", os.getcwd()]
    for _, _, numbers in found:
        # 0 to 2, its pipes, and the descriptor used to list the folder.
        assert numbers == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "pieces",
    [
        [(1001).to_bytes(4)],
        [b"\xff\xff\xff\xff" + b"x" * 5000],
        [(1000).to_bytes(4) + b"x" * 1000 + b"\0\0", b"\x10\0"],
        [(1000).to_bytes(4) + b"x" * 1000 + b"\0\0\x10\0", b""],
        [(5000).to_bytes(4) + b"x" * 5000],
    ],
)
def test_a_message_that_is_too_long_is_refused_by_its_length(module: Path, pieces: list[bytes]) -> None:
    module.write_text(RAW % pieces)
    with closing(PythonChild("own_module", longest=1000)) as child:
        child.send(b"")  # four bytes, so the child writes its remaining pieces
        for _ in pieces[1:]:
            assert child.receive(soon()) == b"x" * 1000
        with pytest.raises(ValueError, match="a message of more than 1000 bytes"):
            child.receive(soon())
    assert not child.is_alive


def test_a_message_may_come_in_any_pieces(module: Path) -> None:
    module.write_text(RAW % [b"\0", b"\0\0", b"\x03", b"ab", b"c\0\0\0\0\0\0\0\x01d\0", b"\0\0\x02e"])
    with closing(PythonChild("own_module", longest=3)) as child:
        child.send(b"12")
        assert [child.receive(soon()) for _ in range(3)] == [b"abc", b"", b"d"]
        with pytest.raises(BrokenPipeError):
            child.receive(soon())


def test_a_message_that_comes_byte_by_byte_takes_no_more_memory_than_another() -> None:
    reading, writing = os.pipe()
    with FileIO(reading) as pipe, FileIO(writing, "w") as other:
        incoming = _MessageReader(pipe, 1 << 20)
        other.write((1 << 20).to_bytes(4))
        tracemalloc.start()
        try:
            for _ in range(20_000):
                other.write(b"x")
                assert incoming.read_messages() == []
            assert tracemalloc.get_traced_memory()[0] < 200_000
        finally:
            tracemalloc.stop()


def test_a_time_limit_holds_for_reading_and_for_writing(module: Path) -> None:
    module.write_text(RAW % [b"\0\0\0\x03a", b"bc"])
    with closing(PythonChild("own_module")) as child:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                child.receive(time.monotonic() + 0.01)
        child.send(b"", soon())
        assert child.receive(soon()) == b"abc"
    module.write_text(DEAF)
    with closing(PythonChild("own_module")) as child, pytest.raises(TimeoutError):
        child.send(bytes(1 << 20), time.monotonic() + 0.01)
    assert not child.is_alive


def test_a_thread_takes_what_it_says_until_it_ends(module: Path) -> None:
    module.write_text(ECHO)
    heard: SimpleQueue[Any] = SimpleQueue()
    with closing(PythonChild("own_module")) as child:
        child.listen(heard.put, lambda *how: heard.put(how))
        child.send(b"a")
        assert [heard.get(timeout=DEADLINE_S) for _ in range(2)] == [b"a"] * 2
        child.kill()
        assert heard.get(timeout=DEADLINE_S) == (-signal.SIGKILL, None)
    with closing(PythonChild("own_module", longest=2)) as child:
        child.listen(lambda message: heard.put(int(message)), lambda *how: heard.put(how))
        child.send(b"1")
        child.send(b"x")
        assert [heard.get(timeout=DEADLINE_S) for _ in range(2)] == [1, 1]
        status, fault = heard.get(timeout=DEADLINE_S)
        assert (status, type(fault)) == (-signal.SIGKILL, ValueError)
    nonsense: list[tuple[bytes, type[Exception]]] = [(b"1e999", OverflowError), (b"[" * 100_000, RecursionError)]
    for message, kind in nonsense:
        with closing(PythonChild("own_module")) as child:
            child.listen(lambda message: heard.put(int(from_json(message))), lambda *how: heard.put(how))
            child.send(message)
            status, fault = heard.get(timeout=DEADLINE_S)
            assert (status, type(fault)) == (-signal.SIGKILL, kind)


def test_a_busy_child_ends_with_its_stdin_and_with_a_message_that_it_cannot_take(module: Path) -> None:
    module.write_text(BUSY)
    ends: list[tuple[Callable[[PythonChild], None], int]] = [
        (lambda child: child.send(b"nonsense"), 1),
        (lambda child: child.send_end(), 0),
    ]
    for end, status in ends:
        with closing(PythonChild("own_module")) as child:
            child.send(b"a")
            assert child.receive(soon()) == b"a"
            end(child)
            wait_until(lambda: not child.is_alive, "its end")
            assert child.wait() == status


def test_several_are_heard_together_or_one_alone(module: Path) -> None:
    module.write_text(ECHO)
    with Team[PythonChild]() as team:
        for _ in range(3):
            team.add(PythonChild("own_module"))
        first, second, third = team.children
        second.send(b"2")
        second.send_end()
        first.send(b"1")
        assert told(team.receive(first)) == [(first, b"1"), (first, b"1")]
        third.kill()
        heard: list[tuple[PythonChild, bytes | None]] = []
        while len(heard) < 4:
            heard += told(team.receive())
        assert sorted(heard, key=lambda one: team.children.index(one[0])) == [
            *[(second, b"2"), (second, b"2"), (second, None)],
            (third, None),
        ]
        assert team.has_running_children
    assert not any(child.is_alive for child in team.children)


def told(heard: Iterator[tuple[PythonChild, list[bytes] | None]]) -> list[tuple[PythonChild, bytes | None]]:
    """The child and the message, one message at a time; None is the end."""
    return [(child, message) for child, messages in heard for message in ([None] if messages is None else messages)]


def test_a_fork_leaves_its_parents_child_alone(module: Path) -> None:
    module.write_text(ECHO)
    with closing(PythonChild("own_module")) as child:
        pid = os.fork()
        if pid == 0:
            child.close()
            os._exit(0)
        os.waitpid(pid, 0)
        child.send(b"1")
        assert child.receive(soon()) == b"1"
