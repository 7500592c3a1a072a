"""When a thread that reads tells of what is new: soon, not too often, and seldom while it falls behind."""

import itertools
import threading
import time

from mcpproxy.tui.data.step_thread import BUSY_REPORT_S, REPORT_S, StepThread


def pulse_of(steps: list[bool], enough: int) -> list[float]:
    """When a step_thread told, whose steps give what is listed, the last of them for ever."""
    told: list[float] = []
    done = threading.Event()

    def step() -> bool:
        return steps.pop(0) if len(steps) > 1 else steps[0]

    def tell() -> None:
        told.append(time.monotonic())
        if len(told) >= enough:
            done.set()

    step_thread = StepThread(step, tell, lambda reason: None)
    try:
        assert done.wait(60)
    finally:
        step_thread.stop()
    return told


def test_what_is_new_is_told_at_once_when_there_is_no_more() -> None:
    assert len(pulse_of([True, False], 1)) == 1


def test_it_is_told_seldom_while_there_is_no_end() -> None:
    told = pulse_of([True], 9)
    # What is stamped is the call, which comes a little after the decision; a gap between two can be shorter by that.
    gaps = [after - before for before, after in itertools.pairwise(told)]
    assert min(gaps) > REPORT_S / 2
    assert min(gaps[-2:]) > BUSY_REPORT_S / 2
