"""Matching: decides which recorded request is the one that a client sends now, and if there is none, which is nearest.

What the client chose anew does not count: the id and the progress token. Everything else is compared as JSON.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

MatchRule: TypeAlias = Literal["arguments", "exact", "method", "sequence"]
"""`arguments`: same method and equal params, apart from `_meta` and ignored places. `exact`: same method and equal
params, with `_meta` (but not the progress token in it). `method`: same method, and same tool, prompt or URI.
`sequence`: the next request in the order of the recording, whatever it asks; its method must be the same."""


class Matching(NamedTuple):
    """How requests are matched."""

    rule: MatchRule = "arguments"
    ignored_places: tuple[str, ...] = ()
    """Lines as in `analysis.comparison.values.ignored_places`; here, the pointers are into the params."""

    def key_of(self, method: str, name: str, params: Any) -> str:
        """Returns what is equal in requests that match, as a short text; a digest is part of it.

        Args:
            method: the method.
            name: the tool, prompt or URI that the request names; empty if it names none.
            params: the params as parsed JSON; None if the request has none, which equals an empty object.
        """
        raise NotImplementedError


class NearestRequest(NamedTuple):
    """The recorded request that differs least from one that matches none."""

    seq: int
    """The number of its frame."""
    method: str
    """Untrusted text, truncated."""
    name: str
    """Untrusted text, truncated."""
    pointers: tuple[str, ...]
    """JSON Pointers into the params, of the places that differ, at most ten. Untrusted text, truncated."""
    call: int
    """`Call.number` of the recorded request."""


def nearest_request(
    method: str, name: str, params: Any, candidates: Sequence[tuple[int, int, str, str, Any]], matching: Matching
) -> NearestRequest | None:
    """Returns the candidate that differs least, or None without candidates.

    Args:
        method: the method of the request that matches none.
        name: what it names.
        params: its params.
        candidates: call number, frame number, method, name and params of recorded requests, at most some hundreds.
        matching: what does not count.
    """
    raise NotImplementedError
