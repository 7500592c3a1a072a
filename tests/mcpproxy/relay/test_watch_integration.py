"""The watch notices without a write that the reader is gone; a released watch holds nothing open."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from mcpproxy.relay.watch import ReaderWatch
from tests.harness import DEADLINE_S, read_some, wait_until


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end


@contextmanager
def sockets() -> Iterator[tuple[int, int]]:
    ours, theirs = socket.socketpair()
    yield ours.detach(), theirs.detach()


def watched(fd: int) -> tuple[ReaderWatch, threading.Event]:
    gone = threading.Event()
    watch = ReaderWatch(fd, gone.set)
    watch.start()
    return watch, gone


def no_watch_runs() -> bool:
    return not any(thread.name == "reader-watch" for thread in threading.enumerate())


@pytest.mark.parametrize("ends", [pipe, sockets])
def test_the_last_reader_goes(ends: Callable[[], AbstractContextManager[tuple[int, int]]]) -> None:
    with ends() as (reader, writer):
        another = os.dup(reader)
        _, gone = watched(writer)
        os.close(reader)
        os.write(writer, b"still read by another one")
        assert not gone.is_set()
        os.close(another)
        assert gone.wait(DEADLINE_S)
        os.close(writer)


def test_a_released_watch_lets_the_end_of_file_through() -> None:
    with pipe() as (reader, writer):
        watch, gone = watched(writer)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, writer)
        os.close(null)
        watch.stop()
        assert read_some(reader) == b""
        wait_until(no_watch_runs, "the watch to end")
        assert not gone.is_set()
        os.close(reader)
        os.close(writer)


def test_what_cannot_be_watched_counts_as_read() -> None:
    """Some descriptors, such as terminals on some systems, poll as invalid."""
    _, gone = watched(987)
    wait_until(no_watch_runs, "the watch to end")
    assert not gone.is_set()
