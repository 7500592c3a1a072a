"""The screens know what the fold knows of a capture, read in steps of any size; filters select as `show` does."""

from pathlib import Path

import pytest

from analysis.conversation.fold import Fold
from captures.reader import Capture, read_frames
from mcpproxy.tui.data import reading as reading_module
from tests.mcpproxy.exporters.recorded import never_answered
from tests.mcpproxy.tui.stage import Stage, captured, play
from tests.mcpproxy.tui.test_reading import CORPUS, read


def test_it_is_known_where_each_session_over_http_begins(tmp_path: Path) -> None:
    path = CORPUS / "http.mcpcap"  # its second session has no messages
    reading, fold, first = read(path), Fold(), dict[int, int]()
    for item in read_frames(Capture(path)):
        for context in fold.feed(item):
            first.setdefault(context.message.seq, context.session.number)
    wanted = {number: seq for seq, number in reversed(first.items())}
    assert sorted(wanted) == [1, 3]
    found = {
        number: reading.index.entry(row).seq for row in reading.shown_rows if (number := reading.starting_session(row))
    }
    assert found == wanted
    reading.close()
    pipe = read(captured(tmp_path))
    assert not any(map(pipe.starting_session, pipe.shown_rows))
    pipe.close()

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.see("session 1  tools/call read", "session 3  answer")
        await stage.press("slash", *"session:3", "enter")
        await stage.see("session 3  answer")
        assert "session 1" not in stage.text()

    play(act, path, size=(140, 30))


def test_an_unanswered_call_waited_until_its_server_ended(tmp_path: Path) -> None:
    reading = read(never_answered(tmp_path / "one.mcpcap"))
    assert reading.waited_ns(1) == 600_000_000
    reading.close()


def test_the_screens_say_what_was_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "ROWS", 15)
    forgotten = "7 requests were forgotten: more than 50,000, or 16 MiB, were open at once"

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.see("records after the first 15 are not shown here")
        await stage.until(lambda: stage.traffic.reading.findings.has_ended)
        stage.traffic.reading.findings.forgotten = (forgotten,)
        await stage.press("F")
        await stage.until(lambda: f"▲ {forgotten}" in stage.text())

    play(act, captured(tmp_path, calls=20), size=(120, 30))
