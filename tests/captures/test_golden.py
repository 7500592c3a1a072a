"""P20: captures of version 1 stay readable forever, with the same content.

The files `tests/corpus/captures/*.mcpcap` never change, as SHA256SUMS next to them proves. The JSON twin of each lists
what a reader must find: the state, every record's number and type, every frame with its verdict and a hash of its
bytes, every damaged place, and how all numbers are accounted for.
After a change that is meant to find more, regenerate the twins and review the difference:

    REGENERATE=1 .venv/bin/pytest tests/captures/test_golden.py
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from captures.damage import Damage
from captures.errors import CaptureError, NewerFormat
from captures.frame import Frame
from captures.integrity import inspect
from captures.listing import first_segment
from captures.reader import Capture, assembled_items
from captures.record import Record
from tests.captures.samples import tables

CORPUS = Path(__file__).parents[1] / "corpus" / "captures"
GOLDEN = sorted({first_segment(path) for path in CORPUS.glob("*.mcpcap")})


def seen(path: Path) -> dict[str, Any]:
    """What the current reader finds in a capture."""
    try:
        capture = Capture(path)
    except CaptureError as error:
        return {"refused": "NewerFormat" if isinstance(error, NewerFormat) else "NotACapture"}
    items = list(capture)
    frames = [item for item in assembled_items(items) if isinstance(item, Frame)]
    found = inspect(capture)
    return {
        "state": found.state,
        "name": capture.header.members.get("name"),
        "holes": [[first, last] for first, last in found.holes],
        "repeated": found.repeated,
        "gaps": [[gap.first, gap.last, gap.reason, gap.lost] for gap in found.gaps],
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
        "code": verdict.code,
        "omitted": list(verdict.omitted) or None,
        "whole": frame.whole,
        "conn": frame.conn or None,
        "exchange": frame.exchange,
        "unit": frame.unit,
        "event_id": frame.event_id,
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


def test_the_captures_themselves_never_change() -> None:
    sums = dict(line.split("  ")[::-1] for line in (CORPUS / "SHA256SUMS").read_text().splitlines())
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in CORPUS.glob("*.mcpcap")} == sums


def test_every_state_damage_and_record_type_has_one() -> None:
    twins = [json.loads(path.with_suffix(".json").read_text()) for path in GOLDEN]
    assert {twin["state"] for twin in twins if "state" in twin} == {"complete", "incomplete", "damaged"}
    assert {twin["refused"] for twin in twins if "refused" in twin} == {"NewerFormat", "NotACapture"}
    assert {row[3] for twin in twins for row in twin.get("damage", ())} == {"torn", "corrupt", "foreign"}
    assert {rec for twin in twins for _, rec in twin.get("records", ())} >= set(tables())
