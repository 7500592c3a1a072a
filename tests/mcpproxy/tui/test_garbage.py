"""The search for garbage does not stop the screens while captures are read, and finds everything afterwards."""

import gc
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from math import inf

import pytest

from mcpproxy.tui.data import garbage, step_thread
from mcpproxy.tui.data.step_thread import StepThread
from tests.harness import DEADLINE_S


class Closed:
    """Something that refers to itself, like a screen."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _nothing_stays_aside() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_cycles_that_were_set_aside_are_found_when_nothing_is_read_or_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without this, the test's process may be so old that a search is due although a thread has just read.
    monkeypatch.setattr(garbage, "LONGEST_S", inf)
    gone = weakref.ref(Closed())
    garbage.set_aside()
    gc.collect()
    assert gone() is not None
    assert not garbage.search(garbage.QUIET_S - 1)
    assert not garbage.search(garbage.QUIET_S), "a thread has just read"
    monkeypatch.setattr(garbage, "QUIET_S", 0.0)
    assert garbage.search(0.0)
    assert gone() is None
    assert not garbage.search(0.0), "nothing was set aside since"


def test_a_search_comes_in_the_end_although_a_thread_always_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = weakref.ref(Closed())
    garbage.set_aside()
    monkeypatch.setattr(garbage, "LONGEST_S", 0.0)
    assert not garbage.search(garbage.QUIET_S - 1), "a key was pressed a second ago"
    assert garbage.search(garbage.QUIET_S)
    assert gone() is None


def test_a_thread_that_reads_leaves_no_crowd_of_objects_to_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_thread, "garbage", garbage)
    table: deque[list[object]] = deque(maxlen=100_000)
    young: list[int] = []
    done = threading.Event()

    def step() -> bool:
        # Each entry drops an old one, so the objects that Python counts stay as many.
        for number in range(1000):
            table.append([number, table])
        young.append(len(gc.get_objects(0)))
        if len(young) >= 200:
            done.set()
        return True

    thread = StepThread(step, lambda: None, lambda reason: None)
    try:
        assert done.wait(DEADLINE_S)
    finally:
        thread.stop()
    assert max(young) < 20_000
