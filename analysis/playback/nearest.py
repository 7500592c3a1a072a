"""Finds the recorded request that differs least from one that matches none, and where it differs."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple

from analysis.comparison.canonical import canonical_json, digest_of_json
from analysis.comparison.change import ABSENT
from analysis.comparison.requests import bounded
from analysis.comparison.values.value_changes import parsed, pointer_of
from analysis.comparison.values.value_differences import Difference, differences
from analysis.playback.matching import Matching
from captures.exact_judge import nesting_depth
from captures.limits import MAX_DEPTH

MAX_POINTERS: Final = 10
"""The maximum number of places that are named."""
MAX_VALUE_CHARS: Final = 200
"""The maximum length of a value, in characters."""
_MAX_STEP_CHARS: Final = 64
_MAX_STEPS: Final = 20
_MAX_NAME_CHARS: Final = 64
"""How many characters of a name are compared."""
_MAX_CANDIDATES: Final = 1_000
_MAX_COUNTED: Final = 1_000
"""The maximum number of differing places that are counted."""
_MAX_ARGUMENT_BYTES: Final = 4 << 10
"""An argument that is larger, or nests deeper than `MAX_DEPTH`, is only compared as a whole."""
_MAX_MEMBERS: Final = 1_000
"""Params or arguments with more members are only compared as a whole."""
_MAX_COMPARED_BYTES: Final = 2 << 20
"""When the candidates so far have as many bytes, no further one is examined."""


class NearestRequest(NamedTuple):
    """The recorded request that differs least from one that matches none."""

    seq: int
    """The number of its frame."""
    method: str
    """Untrusted text, truncated."""
    name: str
    """Untrusted text, truncated."""
    pointers: tuple[str, ...]
    """JSON Pointers into the params, of the places that differ, at most ten; `*` stands for any element of a list, and
    an empty pointer for the params as a whole. Untrusted text, truncated."""
    call: int
    """`Call.number` of the recorded request."""
    values: tuple[tuple[str | None, str | None], ...] = ()
    """For each pointer, the recorded value and the present one, as JSON; None if it is absent. Untrusted text,
    truncated."""
    session: int | None = None
    """The number of its session, if that is not the one that is played."""
    is_next: bool = False
    """Whether it is not the nearest one, but the one that must come next in the recorded order."""


class Candidate(NamedTuple):
    """A recorded request."""

    call: int
    seq: int
    method: str
    name: str
    params: Any


def nearest_request(
    method: str, name: str, params: Any, candidates: Sequence[tuple[int, int, str, str, Any]], matching: Matching
) -> NearestRequest | None:
    """Returns the candidate that differs least, or None if no candidate has the method.

    Candidates with the same tool, prompt or URI come first; if there are none, those with the most similar name. Among
    equally near ones, it is the first.

    Args:
        method: the method of the request that matches none.
        name: what it names.
        params: its params.
        candidates: call number, frame number, method, name and params of recorded requests, at most some hundreds.
        matching: what does not count.
    """
    alike = [Candidate(*candidate) for candidate in islice(candidates, _MAX_CANDIDATES) if candidate[2] == method]
    nearest_name = _nearest_name(name, (candidate.name for candidate in alike))
    today = _condensed(matching.compared_params(method, name, params))
    nearest: tuple[Candidate, list[Difference]] | None = None
    byte_count = 0
    for candidate in alike:
        if candidate.name != nearest_name or byte_count > _MAX_COMPARED_BYTES:
            continue
        recorded = _condensed(matching.compared_params(method, candidate.name, candidate.params))
        byte_count += recorded.size + today.size
        found = list(islice(differences(recorded.value, today.value), _MAX_COUNTED))
        if nearest is None or len(found) < len(nearest[1]):
            nearest = candidate, found
    return nearest and _nearest_request(*nearest)


class _CondensedParams(NamedTuple):
    """Params of which large arguments are replaced by digests."""

    value: Any
    size: int
    """The bytes of the params."""


def _condensed(params: Any) -> _CondensedParams:
    return _CondensedParams(_condensed_members(params, depth=2), len(canonical_json(params)))


def _condensed_members(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict) and len(value) <= _MAX_MEMBERS:
        return {name: _condensed_members(member, depth - 1) for name, member in value.items()}
    text = canonical_json(value)
    if len(text) <= _MAX_ARGUMENT_BYTES and nesting_depth(text) <= MAX_DEPTH:
        return parsed(text.decode())
    return f"{digest_of_json(text)} ({len(text):,} bytes)"


def _nearest_name(name: str, recorded_names: Iterable[str]) -> str:
    names = dict.fromkeys(recorded_names)
    if name in names:
        return name
    by_head = {recorded[:_MAX_NAME_CHARS]: recorded for recorded in reversed(names)}
    heads = get_close_matches(name[:_MAX_NAME_CHARS], by_head, 1, 0.0)
    return by_head[heads[0]] if heads else ""


def _nearest_request(candidate: Candidate, found: list[Difference]) -> NearestRequest:
    first_at: dict[str, Difference] = {}
    for difference in found:
        first_at.setdefault(pointer_of(difference.steps[:_MAX_STEPS], _MAX_STEP_CHARS), difference)
    places = dict(islice(first_at.items(), MAX_POINTERS))
    return NearestRequest(
        candidate.seq,
        bounded(candidate.method),
        bounded(candidate.name),
        tuple(map(bounded, places)),
        candidate.call,
        tuple((_text(place.before), _text(place.after)) for place in places.values()),
    )


def _text(value: Any) -> str | None:
    return None if value is ABSENT else bounded(canonical_json(value).decode(), MAX_VALUE_CHARS)
