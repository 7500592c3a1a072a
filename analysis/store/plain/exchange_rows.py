"""The rows of most HTTP exchanges behind the opening: those of which the last record says all that there is.

They are kept as numbers, 96 bytes each, and go to the child as columns. What many rows have in common is kept once.
"""

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from analysis.store.plain.doubt import Doubt
from analysis.store.table_rows import TARGET
from analysis.store.values import LARGEST, text

if TYPE_CHECKING:
    from analysis.store.plain.exchanges import Open

MOST_ROWS: Final = 2_000_000
"""Rows that are kept as numbers: 96 bytes each."""
MOST_WORDS: Final = 5_000
"""Different sets of texts in them."""
MOST_PEERS: Final = 100_000
LONGEST_PEER: Final = 64
_STREAM: Final = "text/event-stream"
NUMBERS: Final = 12
"""The numbers that are kept of a row; `exchanges.sql` names them."""
_CHUNK: Final = 20_000
"""Rows that are told at once."""


class Rows:
    """Rows of exchanges, as numbers."""

    def __init__(self) -> None:
        self._words: dict[tuple[Any, ...], int] = {}
        """What many rows have in common, numbered."""
        self._peers: dict[str, int] = {}
        """The addresses of clients, likewise: each connection has its own."""
        self._numbers = array("q")

    def take(self, state: "Open", t_ns: int, members: dict[str, Any]) -> bool:
        """Keep a row, if the last record of its exchange says all that is in it."""
        request, response, times = members.get("request"), members.get("response"), members.get("times")
        if type(request) is not dict or type(times) is not dict or state.head is None:
            return False
        if type(response) is not dict and (response is not None or state.response is not None):
            return False
        if not state.times.keys() <= times.keys() or (state.has_size and "request_size" not in members):
            return False
        found = (
            members.get("conn"),
            times.get("request_head"),
            times.get("response_head", 0),
            times.get("first_byte", 0),
            times.get("response_end", t_ns),
            members.get("request_size", 0),
            members.get("response_size", 0),
        )
        numbers = [one for one in found if type(one) is int and 0 <= one <= LARGEST]
        if len(numbers) < len(found):
            return False
        word, peer = self._word(state, request, response, members.get("ended_by")), self._peer(members.get("peer"))
        if word is None or peer is None:
            return False
        if "response_head" not in times:
            numbers[2] = -1
        if "first_byte" not in times:
            numbers[3] = -1
        if len(self._numbers) >= MOST_ROWS * NUMBERS:
            raise Doubt("very many exchanges")
        self._numbers.extend((word, peer, members["exchange"], state.first is not None, *numbers, state.events))
        return True

    def _word(
        self, state: "Open", request: dict[str, Any], response: dict[str, Any] | None, ended_by: object
    ) -> int | None:
        """The number of what many rows have in common; None if that is too much."""
        assert state.head is not None
        method, id_, version, _ = state.head
        target = request.get("target")
        status, by = (None, None) if response is None else (response.get("status"), response.get("by"))
        words = (
            method,
            target if type(target) is str else "",
            status if type(status) is int else None,
            ended_by if type(ended_by) is str and ended_by else "error",
            state.kind,
            id_ or state.answer_id,
            version,
            state.is_stream,
            by == "proxy",
        )
        number = self._words.get(words)
        if number is None and len(self._words) < MOST_WORDS:
            number = self._words[words] = len(self._words)
        return number

    def _peer(self, peer: object) -> int | None:
        if type(peer) is not str or not 0 < len(peer) <= LONGEST_PEER:
            return None
        number = self._peers.get(peer)
        if number is None and len(self._peers) < MOST_PEERS:
            number = self._peers[peer] = len(self._peers)
        return number

    def told(self) -> Iterator[dict[str, Any]]:
        """The rows as the child takes them."""
        yield {
            "words": [(number, *_as_columns(words)) for words, number in self._words.items()],
            "peers": [(number, text(peer)) for peer, number in self._peers.items()],
        }
        for start in range(0, len(self._numbers), _CHUNK * NUMBERS):
            part = self._numbers[start : start + _CHUNK * NUMBERS]
            yield {"numbers": [orjson.dumps(part[column::NUMBERS].tolist()).decode() for column in range(NUMBERS)]}


def _as_columns(words: tuple[Any, ...]) -> tuple[Any, ...]:
    """What many rows have in common, as the columns have it; see `HttpRow`."""
    method, target, status, ended_by, kind, id_, version, is_stream, is_ours = words
    return (
        text(method) or None,
        text(target, TARGET) or None,
        status if status is not None and abs(status) < 2**31 else None,
        text(ended_by),
        text(kind),
        text(id_),
        text(version),
        is_stream or (kind or "").lower().startswith(_STREAM),
        is_ours,
    )
