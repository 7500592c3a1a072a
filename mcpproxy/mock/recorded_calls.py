"""Chooses the recorded call whose answer a request gets."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from analysis.playback.items import Item, Member
from analysis.playback.recently_used import RecentlyUsed
from analysis.playback.script import Script

_REFUSALS: Final = frozenset({401, 403})
"""HTTP statuses that ask for a login, which a mock does not have."""
_MAX_KEPT_CALLS: Final = 100_000
"""How many requests of batches are kept by key."""


class RecordedCall(NamedTuple):
    """A recorded request of the client."""

    item: Item
    """The item that holds it, alone or in a batch."""
    call: int
    position: int | None = None
    """Its position in a batch; None if it is alone."""

    @property
    def request(self) -> Item | Member:
        """The row of the request itself: the item, or its member of a batch."""
        return self.item if self.position is None else self.item.members[self.position]


class _Cursor:
    """How far the recorded requests with one key have been used."""

    __slots__ = ("member", "position")

    def __init__(self) -> None:
        self.position = 0
        self.member = 0
        """How many requests of the batch at the position were used."""


class RecordedCalls:
    """The client's requests of a recorded session, each of which is used once."""

    def __init__(self, script: Script, session: int, *, is_in_sequence: bool) -> None:
        """Begin at the start of a session.

        Args:
            script: the script.
            session: the number of the session.
            is_in_sequence: whether requests must come in the recorded order.
        """
        self._script, self._session = script, session
        self._cursors: dict[str, _Cursor] = {}
        self._sequence = self._in_order() if is_in_sequence else None
        self._next_in_sequence: RecordedCall | None = None
        self._batches: RecentlyUsed[dict[str, list[RecordedCall]]] = RecentlyUsed(_MAX_KEPT_CALLS)
        """The requests of the batches that were used last, by key."""

    def take(self, key: str) -> RecordedCall | None:
        """Use the next recorded request with a key; returns None if there is none that was not used so far."""
        if self._sequence is not None:
            return self._take_in_sequence(key)
        cursor = self._cursors.setdefault(key, _Cursor())
        numbers = self._script.requests(self._session, key)
        while cursor.position < len(numbers):
            number = numbers[cursor.position]
            is_double = cursor.position > 0 and numbers[cursor.position - 1] == number
            calls = () if is_double else self._calls_in(number, key)
            if cursor.member < len(calls):
                chosen = calls[cursor.member]
                if self._is_mere_refusal(chosen, cursor.position, numbers):
                    if not self._script.is_complete and cursor.position + 1 == len(numbers):
                        return None
                else:
                    cursor.member += 1
                    return chosen
            cursor.position, cursor.member = cursor.position + 1, 0
        return None

    def _calls_in(self, number: int, key: str) -> Sequence[RecordedCall]:
        """Returns the requests of an item that have a key; a batch is examined once, however many it has."""
        by_key = self._batches.get(number)
        if by_key is not None:
            return by_key.get(key, ())
        calls = calls_in(self._script.items[number])
        if not calls or calls[0].position is None:
            return calls
        by_key = self._batches.add(number, {}, len(calls))
        for call in calls:
            by_key.setdefault(call.request.key, []).append(call)
        return by_key.get(key, ())

    def _is_mere_refusal(self, chosen: RecordedCall, position: int, numbers: Sequence[int]) -> bool:
        """Whether it was refused because a login was missing, and sent again later."""
        if not is_refused(self._script, chosen):
            return False
        return position + 1 < len(numbers) or not self._script.is_complete

    # ---- in sequence

    def _take_in_sequence(self, key: str) -> RecordedCall | None:
        assert self._sequence is not None
        if self._next_in_sequence is None:
            self._next_in_sequence = next(self._sequence, None)
        chosen = self._next_in_sequence
        if chosen is None or chosen.request.key != key:
            return None
        self._next_in_sequence = None
        return chosen

    @property
    def next_in_sequence(self) -> RecordedCall | None:
        """The request that must come next, if another one came; None without a sequence, or at its end."""
        return self._next_in_sequence

    @property
    def repeats(self) -> bool:
        """Whether a request may get an answer that another one has got: in sequence, only after the end."""
        return self._next_in_sequence is None

    def _in_order(self) -> Iterator[RecordedCall | None]:
        """Yields each request of the session; None if the next one has not been read yet."""
        numbers, position = self._script.items_of(self._session), 0
        while True:
            if position >= len(numbers):
                yield None
                continue
            item = self._script.items[numbers[position]]
            position += 1
            if item.sender == "client" and not item.is_repeat:
                yield from calls_in(item)


def is_refused(script: Script, chosen: RecordedCall) -> bool:
    """Whether a recorded request was refused for want of a login."""
    exchange = chosen.item.exchange
    answer = script.http_answer(exchange) if exchange else None
    return answer is not None and answer.status in _REFUSALS


def calls_in(item: Item) -> tuple[RecordedCall, ...]:
    """Returns the requests of an item."""
    if item.is_repeat:
        return ()
    if item.kind == "request":
        return (RecordedCall(item, item.call),)
    members = enumerate(item.members)
    return tuple(RecordedCall(item, member.call, position) for position, member in members if member.kind == "request")
