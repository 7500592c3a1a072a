"""The calls of a replay that wait for their answers."""

import heapq
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from analysis.conversation.message import Id, Response, converted_id

_LATE_NS: Final = 1_000_000_000
"""How much longer than in the recording the answer to a cancelled call is waited for."""


class OpenCall(Struct, eq=False):
    """A request that was sent, and is not answered yet."""

    number: int
    """`Call.number` of the recorded request."""
    seq: int
    """The number of the frame of the recorded request."""
    recorded_ns: int
    """The recorded stamp."""
    session: int
    """The number of the recorded session."""
    id: Id
    """The id of the request now."""
    token: Id | None
    """The progress token."""
    method: str
    """Untrusted text."""
    name: str
    """Untrusted text."""
    sent_ns: int
    deadline_ns: int
    """When it is given up."""
    is_answered: bool
    """Whether it was answered, or its HTTP exchange ended, in the recording."""
    failed_ns: int | None = None
    """The recorded stamp of the end of its HTTP exchange, if that came without an answer."""
    is_left: bool = False
    """Whether the client ended that exchange."""
    is_modern: bool = False
    """Whether it names its revision itself: over HTTP, closing its exchange cancels it."""
    is_endless: bool = False
    """Whether it normally has no answer."""
    is_cancelled: bool = False
    progress_count: int = 0
    """How many progress notifications have come."""


class OpenCalls:
    """The open calls of one connection, by what names them."""

    def __init__(self) -> None:
        """Begin without calls."""
        self._by_number: dict[int, OpenCall] = {}
        self._by_id: dict[Id, list[OpenCall]] = {}
        self._by_token: dict[Id, OpenCall] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._failures: list[tuple[int, int]] = []
        self._endless_count = 0

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is waited for: calls that normally have none do not count."""
        return len(self._by_number) > self._endless_count

    @property
    def is_end_expected(self) -> bool:
        """Whether a call that normally has no answer is open, and had one in the recording."""
        return bool(self._endless_count) and any(
            call.is_endless and call.is_answered for call in self._by_number.values()
        )

    def add(self, call: OpenCall) -> None:
        """Add a call that is sent now."""
        self._by_number[call.number] = call
        self._by_id.setdefault(call.id, []).append(call)
        self._endless_count += call.is_endless
        if call.token is not None:
            self._by_token[call.token] = call
        if call.failed_ns is not None:
            heapq.heappush(self._failures, (call.failed_ns, call.number))
        heapq.heappush(self._deadlines, (call.deadline_ns, call.number))

    def is_used_elsewhere(self, id_: Id, session: int) -> bool:
        """Whether an open call of another session has an id."""
        return any(call.session != session for call in self._by_id.get(id_, ()))

    def by_id(self, id_: Id) -> OpenCall | None:
        """Returns the oldest open call with an id, or None."""
        calls = self._by_id.get(id_)
        return calls[0] if calls else None

    def take(self, response: Response, numbers: Sequence[int]) -> OpenCall | None:
        """Remove the open call that a response answers, and return it; None if there is none.

        Args:
            response: the response.
            numbers: the calls in the HTTP exchange that carried it; empty if that is unknown.
        """
        own_calls = [call for number in numbers if (call := self._by_number.get(number)) is not None]
        if response.id is None or response.id.type == "null":
            # A server that cannot read a request cannot name it.
            return self.drop(own_calls[0].number) if len(own_calls) == 1 and response.is_error else None
        for id_ in (response.id, converted_id(response.id)):
            call = next((call for call in own_calls if call.id == id_), None) or self.by_id(id_)
            if call is not None:
                return self.drop(call.number)
        return None

    def drop(self, number: int) -> OpenCall | None:
        """Remove a call, and return it; None if it is not open."""
        call = self._by_number.pop(number, None)
        if call is None:
            return None
        same_id = self._by_id[call.id]
        same_id.remove(call)
        if not same_id:
            del self._by_id[call.id]
        if call.token is not None and self._by_token.get(call.token) is call:
            del self._by_token[call.token]
        self._endless_count -= call.is_endless
        return call

    def drop_all(self) -> list[OpenCall]:
        """Remove all calls, and return them."""
        return [call for number in list(self._by_number) if (call := self.drop(number)) is not None]

    def note_progress(self, token: Id) -> None:
        """Count a progress notification for the call with this token."""
        call = self._by_token.get(token)
        if call is not None:
            call.progress_count += 1

    def note_cancellation(self, call: OpenCall, now_ns: int, recorded_delay_ns: int | None) -> None:
        """Note that a call is cancelled now.

        Args:
            call: the call.
            now_ns: the time.
            recorded_delay_ns: how long after that it was answered in the recording; None if it was not.
        """
        if recorded_delay_ns is None:
            self.drop(call.number)
            return
        call.is_cancelled = True
        call.deadline_ns = min(call.deadline_ns, now_ns + recorded_delay_ns + _LATE_NS)
        heapq.heappush(self._deadlines, (call.deadline_ns, call.number))

    def failed_before(self, recorded_ns: int | None) -> list[OpenCall]:
        """Returns, once each, the open calls whose HTTP exchanges had failed before a moment of the recording.

        Args:
            recorded_ns: the stamp; None for its end.
        """
        calls = []
        while self._failures and (recorded_ns is None or self._failures[0][0] <= recorded_ns):
            call = self._by_number.get(heapq.heappop(self._failures)[1])
            if call is not None:
                calls.append(call)
        return calls

    def take_overdue(self, now_ns: int) -> list[OpenCall]:
        """Remove the calls whose deadline is over, and return them; calls that normally have no answer stay."""
        calls = []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            call = self._by_number.get(heapq.heappop(self._deadlines)[1])
            if call is not None and call.deadline_ns <= now_ns and not (call.is_endless and not call.is_cancelled):
                self.drop(call.number)
                calls.append(call)
        return calls

    @property
    def next_deadline_ns(self) -> int | None:
        """When the next call is given up; None if no call waits."""
        while self._deadlines and self._deadlines[0][1] not in self._by_number:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
