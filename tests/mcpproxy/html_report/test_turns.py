"""What a report keeps of turns: limits, hostile ids, and calls that still wait."""

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.reading import End, Reading
from mcpproxy.html_report import limits
from mcpproxy.html_report.turns import ReportTurns
from tests.analysis.store.capture_writer import OPENED, CaptureWriter
from tests.mcpproxy.turn_captures import codex_meta, write_turns


def turns_of(*paths: Path, end: End | None = None) -> ReportTurns:
    turns = ReportTurns()
    for number, path in enumerate(paths):
        reading = Reading(path)
        turns.begin_capture(number, path.stem, OPENED, reading.fold)
        for step in reading.to_end(end):
            turns.on_step(step.changed, step.end)
    return turns


def written(path: Path, meta: dict[str, Any]) -> Path:
    talk = CaptureWriter(path, "files")
    talk.handshake()
    talk.ask(100, 1, "tools/call", name="read", arguments={}, _meta=meta)
    return talk.close(200)


def test_turns_and_calls_beyond_the_limits_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = write_turns(tmp_path)
    monkeypatch.setattr(limits, "MAX_TURNS", 1)
    monkeypatch.setattr(limits, "MAX_CALLS_PER_TURN", 1)
    block = turns_of(*captures).as_object()
    (turn,) = block["turns"]
    assert (block["more"], turn["more"], len(turn["calls"])) == (1, 3, 1)
    monkeypatch.setattr(limits, "MAX_COUNTED_TURNS", 1)
    assert turns_of(*captures).omissions() == ["The report counts the first 1 turns; it omits 1 call of other turns."]


def test_a_call_that_may_still_be_answered_has_not_failed(tmp_path: Path) -> None:
    path = written(tmp_path / "files.mcpcap", codex_meta("turn-1", "call_1"))
    (waiting,) = turns_of(path, end="open").as_object()["turns"]
    (ended,) = turns_of(path, end="killed").as_object()["turns"]
    assert re.fullmatch("1 call on 1 server, .* of waiting", waiting["text"])
    assert "ms of" not in waiting["text"]  # it still waits, for days by now
    assert waiting["calls"][0]["outcome"] == "waiting"
    assert ended["calls"][0]["outcome"] == "unanswered"
    assert ended["text"] == "1 call on 1 server, 1 failed, 100 ms of waiting"


def test_hostile_ids_are_escaped(tmp_path: Path) -> None:
    meta = codex_meta("\x1b[2J\u202e<b>", "call_1") | {"threadId": "\x07"}
    (turn,) = turns_of(written(tmp_path / "files.mcpcap", meta)).as_object()["turns"]
    assert turn["id"] == "\\x1b[2J\\u202e<b>"
    assert turn["short"] == turn["id"]
    assert turn["conversation"] == "\\x07"
