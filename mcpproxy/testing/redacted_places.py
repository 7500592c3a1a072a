"""Finds the places in requests at which a cassette no longer matches the conversation that it was made of."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

from analysis.playback.matching import Matching
from analysis.playback.nearest import nearest_request
from mcpproxy.testing.calls import RecordedCall
from mcpproxy.testing.capture import Capture
from mcpproxy.testing.misses import ignored_place

_MAX_SEARCHED_CHARS: Final = 100
"""Values may have been truncated, so only their beginning is searched for."""
_MAX_EXAMINED: Final = 200
"""The most requests that are compared with what became of them. Those after them have the same places, as a rule."""
_MAX_MOVED: Final = 8
"""By how many places a request may have moved, among those of its method: a cassette orders concurrent ones anew."""


def redacted_places(recording: Path, cassette: Path, matching: Matching) -> list[str]:
    """Returns the places to ignore, so that requests match that did before their secrets were replaced.

    What the server had said before does not count: the cassette says its pseudonym, so a client sends that back.

    Args:
        recording: what was recorded.
        cassette: its copy without secrets.
        matching: how the cassette is played.

    Raises:
        CaptureError: one of them cannot be read.
        IgnoreError: a place that is ignored already is none.
    """
    kept_by_method: dict[str, list[RecordedCall]] = {}
    for call in _requests_of_client(cassette):
        kept_by_method.setdefault(call.method, []).append(call)
    known_keys = {_key(call, matching) for calls in kept_by_method.values() for call in calls}
    recorded = _requests_of_client(recording)
    said = [
        (call.call.response.seq, json.dumps(call.result, ensure_ascii=False)) for call in recorded if call.call.response
    ]
    positions: Counter[str] = Counter()
    places: dict[str, None] = {}
    examined_count = 0
    for call in recorded:
        position = positions[call.method]
        positions[call.method] += 1
        if _key(call, matching) in known_keys:
            continue
        examined_count += 1
        if examined_count > _MAX_EXAMINED:
            break
        near = kept_by_method.get(call.method, [])[max(0, position - _MAX_MOVED) : position + _MAX_MOVED + 1]
        candidates = [(other.call.number, other.frame, other.method, other.name or "", other.params) for other in near]
        nearest = nearest_request(call.method, call.name or "", call.params, candidates, matching)
        if nearest is None:
            continue
        for pointer, (_, value) in zip(nearest.pointers, nearest.values, strict=True):
            place = ignored_place(call, pointer)
            if value is not None and place not in places and not _was_said(value, said, call.frame):
                places[place] = None
    return [*places]


def _requests_of_client(path: Path) -> list[RecordedCall]:
    return [call for call in Capture(path).calls() if call.call.request.sender == "client"]


def _key(call: RecordedCall, matching: Matching) -> str:
    return matching.key_of(call.method, call.name or "", call.params)


def _was_said(value: str, said: list[tuple[int, str]], frame: int) -> bool:
    """Whether a result before a frame has a value, which is given as JSON."""
    text = value.strip('"')[:_MAX_SEARCHED_CHARS]
    return any(text in result for seq, result in said if seq < frame)
