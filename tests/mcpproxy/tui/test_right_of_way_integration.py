"""Reading gives way to keys, and never stops altogether."""

import threading
import time
from pathlib import Path

import pytest

from mcpproxy.tui.data import right_of_way
from mcpproxy.tui.data.right_of_way import DRAWN_S, LONGEST_S, GivingWay
from mcpproxy.tui.data.step_thread import StepThread
from tests.harness import DEADLINE_S
from tests.mcpproxy.tui.stage import Stage, captured, play


def test_nothing_waits_for_a_key_that_came_before() -> None:
    right_of_way.claim()
    stop = threading.Event()
    stop.wait = lambda timeout=None: pytest.fail("it waited")  # type: ignore[method-assign]
    GivingWay().wait(stop)


def test_no_step_begins_while_the_screen_is_drawn() -> None:
    begun: list[float] = []
    first, enough = threading.Event(), threading.Event()

    def step() -> bool:
        begun.append(time.monotonic())
        first.set()
        if begun[-1] - begun[0] > 2 * DRAWN_S:
            enough.set()
        return True

    step_thread = StepThread(step, lambda: None, pytest.fail)
    try:
        assert first.wait(DEADLINE_S)
        right_of_way.claim()
        pressed_at = right_of_way._pressed_at
        assert enough.wait(DEADLINE_S)
    finally:
        step_thread.stop()
    # One may have been about to begin.
    assert sum(pressed_at < at < pressed_at + DRAWN_S for at in begun) <= 1


def test_a_key_that_is_held_down_slows_reading_and_does_not_stop_it() -> None:
    released, enough = threading.Event(), threading.Event()
    begun: list[float] = []

    def hold() -> None:
        while not released.wait(DRAWN_S / 20):
            right_of_way.claim()

    def step() -> bool:
        begun.append(time.monotonic())
        # Two spells of work, and so a wait between them.
        if begun[-1] - begun[0] > LONGEST_S:
            enough.set()
        return True

    step_thread = StepThread(step, lambda: None, pytest.fail)
    holding = threading.Thread(target=hold)
    holding.start()
    try:
        assert enough.wait(DEADLINE_S)
    finally:
        released.set()
        step_thread.stop()
        holding.join()


def test_every_key_claims_the_right_of_way(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        before = time.monotonic()
        await stage.press("j")
        assert right_of_way._pressed_at >= before

    play(act, captured(tmp_path))
