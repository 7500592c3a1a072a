"""Matching: decides which recorded request is the one that a client sends now.

What the client chooses for each request does not count: the id and the progress token. Everything else is compared as
JSON. Unlike in a comparison of two recordings (`analysis.comparison.requests`), what the server chose counts, too: a
mock repeats the recorded cursors, tasks and states, so the client sends them back.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from analysis.comparison.requests import request_digest

if TYPE_CHECKING:
    from analysis.comparison.values.ignored_places import IgnoredPlace

MatchRule: TypeAlias = Literal["arguments", "exact", "method", "sequence"]
"""`arguments`: same method and equal params, apart from `_meta` and ignored places; of requests that say who the client
is, only the method counts. `exact`: same method and equal params, with `_meta` (but not the progress token in it).
`method`: same method, and same tool, prompt or URI. `sequence`: the next request in the order of the recording,
regardless of its params; its method must be the same."""

_META: Final = "_meta"
_CHOSEN_ANEW: Final = "progressToken"
_INTRODUCTIONS: Final = frozenset({"initialize", "server/discover", "ping"})
"""Requests without arguments: their params say who the client is. Another client gets the same answer."""


class Matching(NamedTuple):
    """How requests are matched."""

    rule: MatchRule = "arguments"
    ignored_places: tuple[str, ...] = ()
    """Lines as in `analysis.comparison.values.ignored_places`; here, the pointers are into the params."""

    def key_of(self, method: str, name: str, params: Any) -> str:
        """Returns what is equal in requests that match, as a short text; a digest is part of it.

        Under `sequence`, all requests of one method have the same key: which of them is the next is for the caller to
        know.

        Args:
            method: the method.
            name: the tool, prompt or URI that the request names; empty if it names none.
            params: the params as parsed JSON; None if the request has none, which equals an empty object.

        Raises:
            IgnoreError: a line is not a place to ignore.
        """
        if self.rule == "sequence":
            return request_digest(method, {})
        if self.rule == "method":
            return request_digest(method, name)
        return request_digest(method, self.compared_params(method, name, params))

    def compared_params(self, method: str, name: str, params: Any) -> Any:
        """Returns what counts of the params, under `arguments` and `exact`; the params themselves stay as they are.

        Raises:
            IgnoreError: a line is not a place to ignore.
        """
        if self.rule != "exact" and method in _INTRODUCTIONS:
            return {}
        if params is None:
            return {}
        if isinstance(params, dict) and _META in params:
            meta = params[_META]
            params = {member: value for member, value in params.items() if member != _META}
            if self.rule == "exact":
                if isinstance(meta, dict):
                    meta = {member: value for member, value in meta.items() if member != _CHOSEN_ANEW}
                if meta != {}:
                    params[_META] = meta
        return _without_ignored(params, method, name, self.ignored_places) if self.ignored_places else params


def _without_ignored(params: Any, method: str, name: str, lines: tuple[str, ...]) -> Any:
    from analysis.comparison.values.ignored_places import pass_over  # 15 ms, and most mocks need it never

    places = _places_by_request(lines)
    for request in {("", ""), (method, ""), (method, name)}:
        params, _ = pass_over(params, places.get(request, ()))
    return params


@lru_cache(maxsize=4)
def _places_by_request(lines: tuple[str, ...]) -> "Mapping[tuple[str, str], list[IgnoredPlace]]":
    from analysis.comparison.values.ignored_places import parse_place

    places: dict[tuple[str, str], list[IgnoredPlace]] = {}
    for line in lines:
        place = parse_place(line)
        places.setdefault((place.method, place.name), []).append(place)
    return places
