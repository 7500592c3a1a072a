"""The few header fields of HTTP that matter for which session a message belongs to, and for the rows of exchanges."""

from typing import Final

from analysis.conversation.http_exchange import DECODED, VERSION_FIELD
from analysis.conversation.session_ids import FIELD
from analysis.store.plain.doubt import Doubt

_KIND: Final = "content-type"
_FIELDS: Final = (FIELD, VERSION_FIELD, _KIND, "authorization", "user-agent", "content-encoding")
_Places = tuple[int | None, ...]
_Fields = tuple[str | None, str | None, str | None, str | None, str | None]
"""The values of these fields, without the last."""

_PLACES_KEPT: Final = 1_000
_LONGEST_PLACES: Final = 4_000
"""Characters of the names in a head."""


class Heads:
    """Finds the few header fields that matter. Peers send few sets of names, so each is looked at once."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], _Places] = {}

    def fields(self, headers: object) -> _Fields:
        """The fields of a head.

        Raises:
            Doubt: one of them comes twice, the headers are no pairs of texts, or the body may not have been decoded.
        """
        if type(headers) is not list:
            return None, None, None, None, None
        try:
            names = tuple([name for name, _ in headers])
            places = self._places.get(names) or self._found(names)
        except (TypeError, ValueError):
            raise Doubt("headers of another shape") from None
        id_, version, kind, credentials, program, coding = places
        if coding is not None and _value(headers[coding]).strip().lower() not in DECODED:
            raise Doubt("a body that may not have been decoded")
        return (
            None if id_ is None else _value(headers[id_]),
            None if version is None else _value(headers[version]),
            None if kind is None else _value(headers[kind]),
            None if credentials is None else _value(headers[credentials]),
            None if program is None else _value(headers[program]),
        )

    def _found(self, names: tuple[str, ...]) -> _Places:
        lower = [name.lower() if type(name) is str else "" for name in names]
        if any(lower.count(name) > 1 for name in _FIELDS):
            raise Doubt("a header twice")
        places = tuple([lower.index(name) if name in lower else None for name in _FIELDS])
        if len(self._places) < _PLACES_KEPT and len(names) + sum(map(len, names)) <= _LONGEST_PLACES:
            self._places[names] = places
        return places


def _value(pair: object) -> str:
    if type(pair) is not list or type(pair[1]) is not str:
        raise Doubt("headers of another shape")
    return pair[1]
