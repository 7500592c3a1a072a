"""Every capture and trace of the corpus as a script: complete, exact, and the same however it came to be."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.message import Response
from analysis.playback import script as scripts
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from analysis.reading import Reading
from captures.errors import CaptureError
from captures.frame import Frame
from captures.listing import segments
from tests.analysis.playback.recordings import closed_scripts, grown
from tests.analysis.traces import CORPUS, read

__all__ = ["closed_scripts"]

CAPTURES = Path(__file__).parents[2] / "corpus" / "captures"


def _captures() -> Iterator[Path]:
    for path in sorted(CAPTURES.glob("*.mcpcap")):
        if path == segments(path)[0]:
            try:
                Reading(path)
            except CaptureError:
                continue
            yield path


def _content(script: Script) -> list[Any]:
    """Everything that a script says."""
    items = [*script.items]
    calls = range(len(items) + sum(len(item.members) for item in items))
    exchanges = sorted({item.exchange for item in items})
    return [
        items,
        [*script.sessions],
        [[*script.items_of(session)] for session in (0, *script.sessions)],
        [[*script.items_of_call(call)] for call in calls],
        [script.answer_of(call) for call in calls],
        [[*script.requests(item.session, item.key)] for item in items if item.key],
        [script.http_answer(exchange) for exchange in exchanges],
        [[*script.http_answers_of(session)] for session in (0, *script.sessions)],
        script.transport,
        script.ending,
    ]


def _check(path: Path) -> Script:
    """Check that a script has what the reading has; return it."""
    script = grown(path)
    frames: Counter[bytes] = Counter()
    first_lines = set()
    answers: dict[int, int] = {}
    for step in Reading(path).to_end():
        if isinstance(step.item, Frame):
            frames[step.item.raw] += 1
            first_lines.add((step.item.seq, step.item.raw))
        for context in step.messages:
            if context.answered is not None and isinstance(context.message, Response):
                answers[context.answered.number] = context.message.seq
    for item in script.items:
        raw = script.raw(item)
        if item.kind != "stderr":
            lines = [raw] if (item.seq, raw) in first_lines else raw.split(b"\n")  # a message over several lines
            assert (item.seq, lines[0]) in first_lines, (path, item)
            frames.subtract(lines)
    assert not any(frames.values()), (path, +frames, -frames)
    assert {call: script.items[script.answer_of(call) or 0].seq for call in answers} == answers
    return script


def test_captures_are_whole_however_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(scripts, "MIN_CAPTURE_BYTES", 0)
    monkeypatch.setattr(scripts, "FIRST_CHUNK_ITEMS", 3)
    monkeypatch.setattr(scripts, "MAX_CHUNK_ITEMS", 5)
    for path in _captures():
        first = _check(path)
        stepwise = grown(path, step=1)
        assert _content(stepwise) == _content(first), path
        assert stepwise.save(), path
        cached = grown(path)
        assert cached.is_from_cache, path
        assert _content(cached) == _content(first), path
        assert not grown(path, Matching("exact")).is_from_cache


def _check_traces(folder: Path, share: int) -> None:
    path = folder / "trace.mcpcap"
    for file in sorted(CORPUS.glob("*.ndjson")):
        for case in read(file)[::share]:
            path.write_bytes(b"".join(line for _, line in case.records()))
            _check(path).close()


def test_traces_are_whole(tmp_path: Path) -> None:
    _check_traces(tmp_path, 8)


@pytest.mark.soak
def test_all_traces_are_whole(tmp_path: Path) -> None:
    _check_traces(tmp_path, 1)
