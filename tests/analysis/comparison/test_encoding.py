"""Sides as lines: whatever a record of a peer's values holds arrives unchanged."""

import json
from typing import Any

import pytest

from analysis.comparison.change import Place, SideSummary
from analysis.comparison.encoding import decode_side, encode_side, with_places
from analysis.comparison.outcome_record import CallRow, Ending, OutcomesRecord, RequestRow
from analysis.comparison.side import Side

SUMMARY = SideSummary("old", 1, 1, 2, "everything \ud800", None, ("2025-06-18",), 7, ("Something is lost.",))


def test_a_side_arrives_unchanged() -> None:
    ending = Ending(Place("c.mcpcap", 1, 5), 2, ("no \ud800",))
    requests = {"d1": RequestRow("client", "tools/call", "se\ud800", {"error": ending})}
    calls = {"d2": CallRow("client", "tools/call", "", {"result": 1 << 70})}
    side = Side(SUMMARY, {"outcomes": OutcomesRecord(requests, calls, 3)})
    decoded = decode_side(encode_side(side))
    assert decoded == side
    assert decoded.records["outcomes"].requests["d1"].endings["error"].place.frame == 5


def test_what_this_version_does_not_know_is_left_out() -> None:
    lines = [*encode_side(Side(SUMMARY, {})), b'["weather",{"rain":1}]']
    assert decode_side(lines) == Side(SUMMARY, {})


def test_other_lines_are_refused() -> None:
    (summary,) = encode_side(Side(SUMMARY, {}))
    deep = b'["outcomes",' + b"[" * 100_000 + b"]" * 100_000 + b"]"
    for lines in ([], [b"{}"], [b"nonsense"], [b"\xff"], [summary, b'["outcomes",{}]'], [summary, b"[1]"], [deep]):
        with pytest.raises(ValueError):
            decode_side(lines)


def test_places_are_changed_wherever_they_are() -> None:
    place = Place("a", 1, 2)
    record: Any = {"list": [place], "tuple": (place, 1), "row": Ending(place), "text": "a"}
    changed = with_places(record, lambda _: Place("b", 0, -1))
    assert json.dumps(changed["list"]) == '[["b", 0, -1]]'
    assert changed["tuple"] == (Place("b", 0, -1), 1)
    assert changed["row"].place == Place("b", 0, -1)
    assert changed["text"] == "a"
    assert record["row"].place is place
