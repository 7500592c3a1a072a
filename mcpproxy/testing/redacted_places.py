"""Finds the places in requests at which a cassette no longer matches the conversation that it was made of."""

import json
from pathlib import Path

from analysis.playback.matching import Matching
from analysis.playback.nearest import nearest_request
from mcpproxy.testing.calls import RecordedCall
from mcpproxy.testing.capture import Capture
from mcpproxy.testing.misses import ignored_place

_MAX_SEARCHED_CHARS = 100
"""Values may have been truncated, so only their beginning is searched for."""


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
    kept = _requests_of_client(cassette)
    known_keys = {_key(call, matching) for call in kept}
    candidates = [(call.call.number, call.frame, call.method, call.name or "", call.params) for call in kept]
    recorded = _requests_of_client(recording)
    places: dict[str, None] = {}
    for call in recorded:
        if _key(call, matching) in known_keys:
            continue
        nearest = nearest_request(call.method, call.name or "", call.params, candidates, matching)
        if nearest is None:
            continue
        for pointer, (_, value) in zip(nearest.pointers, nearest.values, strict=True):
            if value is not None and not _was_said(value, recorded, call.frame):
                places[ignored_place(call, pointer)] = None
    return [*places]


def _requests_of_client(path: Path) -> list[RecordedCall]:
    return [call for call in Capture(path).calls() if call.call.request.sender == "client"]


def _key(call: RecordedCall, matching: Matching) -> str:
    return matching.key_of(call.method, call.name or "", call.params)


def _was_said(value: str, calls: list[RecordedCall], frame: int) -> bool:
    """Whether a result before a frame has a value, which is given as JSON."""
    text = value.strip('"')[:_MAX_SEARCHED_CHARS]
    results = (call.result for call in calls if call.call.response is not None and call.call.response.seq < frame)
    return any(text in json.dumps(result, ensure_ascii=False) for result in results)
