"""The queue of keys: no key waits for ever, and none is lost while others wait."""

import json
from concurrent.futures import Future
from pathlib import Path

import pytest

from mcpproxy.tui.keys import queue as key_queue
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import CALL, END, Stage, _pressed, captured, frame_record, play, record

TYPED = [
    ("/tools/list\r", "tools/list  0 of"),
    ("/quit", "\n filter quit "),
    ("Mhello\r", "◆ hello"),
    ("equit", "jsonlquit"),
    ("cqMquick\r", "◆ helloquick"),  # the row has that note
    ("?q/quit", "\n filter quit "),
    ("F/quit", "\n quit "),
    ("Qqueries", "\n queries "),
]
"""Keys that are typed at once in the detail of the second row, and a text that is then on the screen."""


@pytest.mark.costly("each is typed in a detail that is opened anew")
@pytest.mark.parametrize(
    "typed",
    [[TYPED[place] for place in (0, 2, 4, 6, 7)], pytest.param(TYPED, marks=pytest.mark.soak)],
    ids=["some", "all"],
)
def test_what_is_typed_at_once_goes_where_the_keys_before_lead(tmp_path: Path, typed: list[tuple[str, str]]) -> None:
    async def act(stage: Stage) -> None:
        for keys, seen in typed:
            await stage.open()
            seen = seen.rstrip(" ")
            assert seen not in stage.text(), f"before {keys!r}"
            for key in ("g", "j", "enter", "tab", *("enter" if key == "\r" else key for key in keys)):
                stage.app.post_message(_pressed(key))
            await stage.until(lambda: seen in stage.text(), f"{seen!r} after {keys!r}")  # noqa: B023 - asked at once
            await stage.back()

    play(act, captured(tmp_path), size=(140, 24))


def test_keys_wait_for_work_that_is_done_at_last_and_not_for_what_never_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        work: Future[None] = Future()
        stage.app.key_queue.wait_for(work)
        await stage.type_ahead("t", "slash", "q")
        assert not stage.traffic.query_one(FilterBox).display
        work.set_result(None)
        await stage.until(lambda: stage.traffic.query_one(FilterBox).value == "q")
        await stage.press("escape")
        with monkeypatch.context() as patch:
            patch.setattr(key_queue, "MAX_KEY_WAIT_S", 0.0)
            stage.app.key_queue.wait_for(Future())
            await stage.type_ahead("t", "question_mark")
            await stage.until(lambda: isinstance(stage.app.screen, HelpScreen))
        await stage.press("escape")
        # Ctrl-C waits for nothing.
        stage.app.key_queue.wait_for(Future())
        await stage.type_ahead("t", "slash", "ctrl+c")
        await stage.until(lambda: stage.app._exit)

    play(act, captured(tmp_path))


def test_keys_for_the_detail_wait_until_it_is_there(tmp_path: Path) -> None:
    text = json.dumps({"lines": list(range(20_000))}).encode()
    answer = b'{"jsonrpc":"2.0","id":1,"result":' + text + b"}"
    made = [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", answer), END]
    path = record(tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", made)

    async def act(stage: Stage) -> None:
        await stage.open()
        for key in ("down", "enter", "2", "G"):
            stage.app.post_message(_pressed(key))
        # Not at the first line, where the cursor would be if the tree had come after the keys.
        await stage.until(lambda: stage.traffic.pane.folding_tree is not None)
        tree = stage.traffic.pane.folding_tree
        assert tree is not None
        await stage.until(lambda: stage.traffic.pane.cursor == len(tree) - 1)

    play(act, path)
