"""P20: captures of version 1 stay readable for ever, and say the same.

`tests/corpus/captures/*.mcpcap` are never written again. The JSON twin beside each says what a reader must see: the
state, every record's number and type, every frame with its verdict and a hash of its bytes, every damaged place.
After a change that is meant to see more, make the twins anew, and read the difference:

    REGENERATE=1 .venv/bin/pytest tests/captures/test_golden.py
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from captures.errors import NewerFormat
from captures.frame import Frame
from captures.integrity import inspect
from captures.places import segment_number
from captures.reader import Capture, Damage, read_frames
from captures.record import Record

CORPUS = Path(__file__).parents[1] / "corpus" / "captures"
GOLDEN = sorted(path for path in CORPUS.glob("*.mcpcap") if segment_number(path) == 1)


def seen(path: Path) -> dict[str, Any]:
    """What today's reader sees in a capture."""
    try:
        capture = Capture(path)
    except NewerFormat:
        return {"refused": "NewerFormat"}
    items = list(capture)
    frames = [item for item in read_frames(items) if isinstance(item, Frame)]
    return {
        "state": inspect(capture).state,
        "records": [[item.seq, item.rec] for item in items if isinstance(item, Record)],
        "frames": [frame_row(frame) for frame in frames],
        "damage": [[item.path.name, item.offset, item.size, item.cause] for item in items if isinstance(item, Damage)],
    }


def frame_row(frame: Frame) -> dict[str, Any]:
    verdict = frame.verdict
    row = {
        "seq": frame.seq,
        "dir": frame.dir,
        "kind": verdict.kind,
        "id": verdict.id.decode() if verdict.id is not None else None,
        "method": verdict.method,
        "problem": verdict.problem,
        "whole": frame.whole,
        "exchange": frame.exchange,
        "unit": frame.unit,
        "sha256": hashlib.sha256(frame.raw + frame.delim).hexdigest(),
    }
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_capture_of_version_1_says_what_it_always_said(path: Path) -> None:
    twin = path.with_suffix(".json")
    found = seen(path)
    if os.environ.get("REGENERATE"):
        twin.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(twin.read_text())


def test_there_are_captures_to_read() -> None:
    assert len(GOLDEN) >= 9
