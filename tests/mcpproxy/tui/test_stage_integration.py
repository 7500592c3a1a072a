"""The stage of these tests: when a screen is settled, and what is reported about one that never is."""

import threading
from pathlib import Path

import pytest

from mcpproxy.tui.data.step_thread import StepThread
from tests.mcpproxy.tui import stage as stage_module
from tests.mcpproxy.tui.stage import Stage, captured, play


def test_what_keeps_a_screen_from_being_settled_is_named(tmp_path: Path) -> None:
    working, go_on = threading.Event(), threading.Event()

    def step() -> bool:
        working.set()
        return go_on.wait(stage_module.DEADLINE_S) and False

    async def act(stage: Stage) -> None:
        await stage.settled()
        step_thread = StepThread(step, lambda: None, pytest.fail)
        try:
            assert working.wait(stage_module.DEADLINE_S)
            (busy,) = stage._busy()
            assert busy.startswith("thread reader at ")
            assert busy.endswith(" step")
            go_on.set()
            await stage.settled()
        finally:
            go_on.set()
            step_thread.stop()
        assert stage_module.working_threads(stage.earlier) == []

    play(act, captured(tmp_path))
