"""When a reading thread reports news: soon, not too often, and seldom while it falls behind."""

import itertools
import threading
from types import SimpleNamespace

import pytest

from mcpproxy.tui.data import step_thread as step_thread_module
from mcpproxy.tui.data.step_thread import BUSY_REPORT_INTERVAL_S, REPORT_INTERVAL_S, StepThread
from tests.harness import DEADLINE_S

STEP_S = 0.01


def pulse_of(patch: pytest.MonkeyPatch, steps: list[bool], enough: int) -> list[float]:
    """The times of the first `enough` reports of a thread whose steps return `steps`, the last of them for ever.

    Each step takes `STEP_S`.
    """
    told: list[float] = []
    done = threading.Event()
    clock = itertools.count()
    now = 0.0

    def step() -> bool:
        nonlocal now
        now = next(clock) * STEP_S
        return steps.pop(0) if len(steps) > 1 else steps[0]

    def tell() -> None:
        told.append(now)
        if len(told) >= enough:
            done.set()

    patch.setattr(step_thread_module, "time", SimpleNamespace(monotonic=lambda: now))
    step_thread = StepThread(step, tell, lambda reason: None)
    try:
        assert done.wait(DEADLINE_S)
    finally:
        step_thread.stop()
    return told


def test_what_is_new_is_told_at_once_when_there_is_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(pulse_of(monkeypatch, [True, False], 1)) == 1


def test_the_end_is_reported_even_without_other_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then, the screen says that there is more to come."""
    monkeypatch.setattr(step_thread_module, "POLL_S", 0)
    steps = [False, *[False] * int(REPORT_INTERVAL_S / STEP_S), True, False]
    assert len(pulse_of(monkeypatch, steps, 3)) == 3


def test_it_is_told_seldom_while_there_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told = pulse_of(monkeypatch, [True], 9)
    gaps = [after - before for before, after in itertools.pairwise(told)]
    assert min(gaps) > REPORT_INTERVAL_S - STEP_S / 2
    assert min(gaps[-2:]) > BUSY_REPORT_INTERVAL_S - STEP_S / 2
