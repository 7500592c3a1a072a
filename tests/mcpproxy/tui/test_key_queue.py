"""KeyQueue: no key waits for ever, and none is lost while others wait."""

from concurrent.futures import Future
from pathlib import Path

import pytest

from mcpproxy.tui import key_queue
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.mcpproxy.tui.stage import Stage, captured, play


def test_keys_wait_for_work_that_is_done_at_last(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        work: Future[None] = Future()
        stage.app.key_queue.wait_for(work)
        await stage.press("t", "slash", "q")
        assert not stage.traffic.query_one(FilterBox).display
        work.set_result(None)
        await stage.until(lambda: stage.traffic.query_one(FilterBox).value == "q")

    play(act, captured(tmp_path))


def test_keys_work_beside_what_is_never_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "LONGEST_S", 0.0)

    async def act(stage: Stage) -> None:
        await stage.open()
        stage.app.key_queue.wait_for(Future())
        await stage.press("t", "question_mark")
        await stage.until(lambda: isinstance(stage.app.screen, HelpScreen))

    play(act, captured(tmp_path))


def test_ctrl_c_waits_for_nothing(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        stage.app.key_queue.wait_for(Future())
        await stage.press("t", "slash", "ctrl+c")
        await stage.until(lambda: stage.app._exit)

    play(act, captured(tmp_path))
