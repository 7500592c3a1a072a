"""Keeps the calls that wait for a response, by the id of their request, and pairs responses with them.

There is one table per requesting side, as ids belong to the side that chose them. Each id is in it once: with its open
request, or with a summary of its last one. An id is free again once its request has been answered; two requests in
flight under one id are answered in the order in which they were sent. A response that fits no request pairs with
nothing: a wrong link is worse than none.

Memory is bounded regardless of the traffic: by the number of open requests, by the bytes of their frames, and by the
number of ids remembered as answered. The table counts all that it forgets.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from msgspec import Struct

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, IdState
from analysis.conversation.loss_counter import LossCounter
from analysis.conversation.message import Id
from analysis.conversation.record_ref import RecordRef

MAX_OPEN_REQUESTS: Final = 50_000
"""The most requests of one side that wait for a response; the oldest are forgotten first."""
MAX_OPEN_HTTP_REQUESTS: Final = 15_000
"""The most such requests over HTTP, where each request may have its own exchange and session."""
MAX_OPEN_BYTES: Final = 16 << 20
"""The most bytes in the frames of open requests; a single request may be larger."""
PACKING_THRESHOLD: Final = 1_000
PACKING_THRESHOLD_BYTES: Final = 1 << 20
"""If one side has more open requests, or more bytes in their frames, the older requests are packed."""
MAX_UNPACKED_REQUESTS: Final = 100
MAX_UNPACKED_BYTES: Final = 1 << 20
"""How many of the latest requests, and of the bytes in their frames, are not packed."""
MAX_GIVEN_UP_REQUESTS: Final = 10_000
"""The most requests that are kept after their response may have been lost and their id was reused."""
MAX_PAST_IDS: Final = 100_000
"""The most ids of one side that are remembered without an open request; the oldest tenth is forgotten first."""

# Looking up enumeration members takes ten times as long as these constants.
_ID_NEVER_SEEN: Final = IdState.NEVER_SEEN
_ID_ANSWERED: Final = IdState.ANSWERED
_ID_FAILED: Final = IdState.FAILED


class PastRequest(Struct, eq=False, gc=False):
    """A summary of the last request under an id that has no open request."""

    number: int
    """The number of its call."""
    seq: int
    conn: int
    """The connection that carried it; 0 on stdio."""
    state: IdState
    """How the request ended; NEVER_SEEN if unknown, because it was forgotten or cannot be answered."""
    t_ns: int
    """The stamp of its response, or 0 if there is none."""


class CallTable:
    """The requests of one side, by id."""

    def __init__(self, limit: int = MAX_OPEN_REQUESTS, bytes_limit: int = MAX_OPEN_BYTES) -> None:
        """Create an empty table.

        Args:
            limit: the most open requests.
            bytes_limit: the most bytes in their frames.
        """
        self.evicted_count = 0
        """How many open requests had to be forgotten: their responses pair with nothing."""
        self.dropped_calls: list[Call] = []
        """The calls that this table dropped while they were open. The caller ends them and clears the list."""
        self.newest_number = -1
        """The number of the last call that was entered."""
        self._limit, self._bytes_limit = limit, bytes_limit
        self._check_count, self._check_bytes = (
            min(limit, MAX_OPEN_HTTP_REQUESTS, PACKING_THRESHOLD),
            min(bytes_limit, PACKING_THRESHOLD_BYTES),
        )
        self._losses = LossCounter()
        self._open_calls: OrderedDict[RequestKey, Call] = OrderedDict()
        self._past_requests: dict[RequestKey, PastRequest] = {}
        self.get: Callable[[RequestKey], Call | None] = self._open_calls.get
        """Returns the call that a response under a key would answer now, or None."""
        self.past_request: Callable[[RequestKey], PastRequest | None] = self._past_requests.get
        """Returns the summary of the last request under a key, or None if a request is open under it or there was
        none."""
        # Later requests under the same key. These are rare, so only such keys have a queue.
        self._later_calls: dict[RequestKey, deque[Call]] = {}
        # How many requests under a key are cancelled: always the first ones, as responses and cancellations both go in
        # order.
        self._cancelled_counts: dict[RequestKey, int] = {}
        self._forgotten = 0
        # Requests whose responses may be among lost records and whose ids were reused: no response can match them.
        self._given_up_calls: deque[Call] = deque()
        # While there are many calls, those whose requests are not packed, in the order in which they were sent.
        self._unpacked_calls: deque[Call] = deque()
        self._unpacked_bytes = 0
        # How many requests are open in each frame that contains several, by frame number. They share the frame's bytes.
        self._open_requests_by_frame: dict[int, int] = {}
        self._count = self._bytes = 0

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._count

    @property
    def forgotten_count(self) -> int:
        """How many ids were forgotten, in any state, plus the losses of records; above 0, NEVER_SEEN proves nothing."""
        return self._forgotten + self._losses.count + self.evicted_count

    def add(self, call: Call, key: RequestKey) -> IdState:
        """Enter a call. If it cannot be answered (its id is null, an array or an object), it is not open.

        Returns:
            The previous state of its key.
        """
        state = self.id_state(key)
        if not call.request.id.is_answerable:
            self.newest_number = call.number
            self._remember_past_request(key, call, _ID_NEVER_SEEN)
            return state
        self._past_requests.pop(key, None)
        while (first := self._open_calls.get(key)) is not None and first.may_be_lost:
            if len(self._given_up_calls) == MAX_GIVEN_UP_REQUESTS:
                self.dropped_calls.append(self._given_up_calls.popleft())
            self._release(key, first)
            self._given_up_calls.append(first)
        if key in self._open_calls:
            self._later_calls.setdefault(key, deque()).append(call)
        else:
            self._open_calls[key] = call
        self._add_open_call(call)
        return state

    def add_first(self, call: Call, key: RequestKey) -> None:
        """Enter a call under a key that no earlier request is known to have used."""
        self._open_calls[key] = call
        self._add_open_call(call)

    def answer(self, key: RequestKey | None, t_ns: int = 0) -> Call | None:
        """Record a response; return the call that it answers, now closed, or None if it fits none."""
        call = None if key is None else self._open_calls.get(key)
        if key is not None and call is not None:
            self._close(key, call, _ID_ANSWERED, t_ns)
        return call

    def fail(self, key: RequestKey) -> None:
        """Close a request that can no longer be answered."""
        call = self._open_calls.get(key)
        if call is not None:
            self._close(key, call, _ID_FAILED)

    def cancel(self, key: RequestKey, t_ns: int, seq: int = -1, reason: str | None = None) -> Call | None:
        """Record a cancellation; return the call that it names (still open), or None if there is none."""
        first, later_calls, cancelled_count = (
            self._open_calls.get(key),
            self._later_calls.get(key, ()),
            self._cancelled_counts.get(key, 0),
        )
        if first is None or cancelled_count > len(later_calls):
            return None
        call = later_calls[cancelled_count - 1] if cancelled_count else first
        call.cancellation, call.cancel_reason = RecordRef(seq, t_ns), reason
        self._cancelled_counts[key] = cancelled_count + 1
        return call

    def last_request(self, key: RequestKey) -> tuple[int, int, int] | None:
        """Returns the numbers of call, frame and connection of the last request under a key, open or not."""
        call = self._open_calls.get(key)
        if call is None:
            past_request = self._past_requests.get(key)
            return None if past_request is None else (past_request.number, past_request.seq, past_request.conn)
        later_calls = self._later_calls.get(key)
        return _numbers(later_calls[-1] if later_calls else call)

    def latest_ids(self, count: int, after: int) -> list[Id]:
        """Returns the ids of the latest requests, the latest first.

        Args:
            count: the most ids to return.
            after: the number of a call; this call and all earlier ones are left out.
        """
        open_keys = islice(reversed(self._open_calls), count)
        numbers = [(self._open_calls[key].number, key.id) for key in open_keys]
        numbers += [(self._past_requests[key].number, key.id) for key in islice(reversed(self._past_requests), count)]
        return [id_ for number, id_ in sorted(numbers, key=_call_number, reverse=True)[:count] if number > after]

    def answered_seq(self, key: RequestKey) -> int | None:
        """Returns the frame number of the last request under a key if it has been answered, or else None."""
        past_request = self._past_requests.get(key)
        return None if past_request is None or past_request.state is not _ID_ANSWERED else past_request.seq

    def answered_ns(self, key: RequestKey) -> int | None:
        """Returns the stamp of the response to the last request under a key, or None if it has not been answered."""
        past_request = self._past_requests.get(key)
        return None if past_request is None or past_request.state is not _ID_ANSWERED else past_request.t_ns

    def note_loss(self, lost_range: tuple[int, int] | None = None) -> None:
        """Note a loss of frames: open requests may have been answered, and any id may have been used.

        Responses to open requests are still accepted. No other earlier knowledge proves anything after a loss.

        Args:
            lost_range: the first and the last number of the lost records; None if that is unknown.
        """
        self._losses.note(lost_range)
        self._past_requests.clear()

    def clear(self) -> None:
        """Forget everything, to break the reference cycle of calls, their session and this table."""
        for table in (
            self._open_calls,
            self._past_requests,
            self._later_calls,
            self._cancelled_counts,
            self._given_up_calls,
            self._open_requests_by_frame,
        ):
            table.clear()
        self._unpacked_calls.clear()
        self._count = self._bytes = self._unpacked_bytes = 0

    def id_state(self, key: RequestKey) -> IdState:
        """Returns the state of a key."""
        call = self._open_calls.get(key)
        if call is not None:
            return call.id_state
        past_request = self._past_requests.get(key)
        return _ID_NEVER_SEEN if past_request is None else past_request.state

    def waiting_calls(self) -> list[Call]:
        """Returns all calls that wait, or waited when records were lost, in the order of their requests."""
        later_calls = (call for queue in self._later_calls.values() for call in queue)
        return sorted([*self._given_up_calls, *self._open_calls.values(), *later_calls], key=_request_order)

    def oldest_calls(self, count: int) -> list[Call]:
        """Returns the calls under the first `count` waiting ids, one per id, roughly in the order of their requests."""
        return [*islice(self._open_calls.values(), count)]

    def _pack(self, call: Call) -> None:
        """Pack older open requests when there are very many: only the last ones keep their values."""
        self._unpacked_calls.append(call)
        self._unpacked_bytes += len(call.request.frames[0].raw)
        while len(self._unpacked_calls) > 1 and (
            len(self._unpacked_calls) > MAX_UNPACKED_REQUESTS or self._unpacked_bytes > MAX_UNPACKED_BYTES
        ):
            oldest = self._unpacked_calls.popleft()
            self._unpacked_bytes -= len(oldest.request.frames[0].raw)
            if oldest.final_outcome is None:
                oldest.request.pack()

    def _add_open_call(self, call: Call) -> None:
        """Count a call as open; forget older calls if there are too many."""
        self.newest_number = call.number
        losses, request = self._losses, call.request
        call.losses, call.losses_before = losses, losses.count
        frame, users = request.frames[0], 0
        if request.index is not None:
            users = self._open_requests_by_frame.get(frame.seq, 0)
            self._open_requests_by_frame[frame.seq] = users + 1
        self._bytes += 0 if users else len(frame.raw)
        self._count += 1
        if self._count > self._check_count or self._bytes > self._check_bytes:
            self._enforce_limits(call)

    def _enforce_limits(self, call: Call) -> None:
        """Pack older calls if there are many, and forget the oldest if there are too many."""
        if self._count > PACKING_THRESHOLD or self._bytes > PACKING_THRESHOLD_BYTES:
            self._pack(call)
        limit = self._limit if call.http is None else min(self._limit, MAX_OPEN_HTTP_REQUESTS)
        while self._count > 1 and (self._count > limit or self._bytes > self._bytes_limit):
            key, oldest = next(iter(self._open_calls.items()))
            self._close(key, oldest, _ID_NEVER_SEEN)
            self.dropped_calls.append(oldest)
            self.evicted_count += 1

    def _close(self, key: RequestKey, call: Call, state: IdState, t_ns: int = 0) -> None:
        """Remove the oldest call under a key, which has ended, and remember its state if no other call is open."""
        self._release(key, call)
        if key not in self._open_calls:
            self._remember_past_request(key, call, state, t_ns)

    def _release(self, key: RequestKey, call: Call) -> None:
        """Remove the oldest call under a key from the open calls."""
        later_calls = self._later_calls.get(key) if self._later_calls else None
        if later_calls is None:
            del self._open_calls[key]
        else:
            self._open_calls[key] = later_calls.popleft()
            if not later_calls:
                del self._later_calls[key]
        if call.cancellation is not None:
            self._cancelled_counts[key] -= 1
            if not self._cancelled_counts[key]:
                del self._cancelled_counts[key]
        request = call.request
        frame, users = request.frames[0], 1
        if request.index is not None:
            users = self._open_requests_by_frame.pop(frame.seq)
            if users > 1:
                self._open_requests_by_frame[frame.seq] = users - 1
        self._bytes -= 0 if users > 1 else len(frame.raw)
        self._count -= 1

    def _remember_past_request(self, key: RequestKey, call: Call, state: IdState, t_ns: int = 0) -> None:
        """Keep a summary of a call whose id has no open request."""
        past_requests, request = self._past_requests, call.request
        past_requests[key] = PastRequest(call.number, request.seq, request.frames[0].conn, state, t_ns)
        if len(past_requests) > MAX_PAST_IDS:
            # All at once: a dictionary takes linear time to find its first entry after others were removed.
            oldest_keys = [*islice(past_requests, max(1, MAX_PAST_IDS // 10))]
            for key in oldest_keys:
                del past_requests[key]
            self._forgotten += len(oldest_keys)


def _numbers(call: Call) -> tuple[int, int, int]:
    return call.number, call.request.seq, call.request.frames[0].conn


def _call_number(pair: tuple[int, Id]) -> int:
    return pair[0]


def _request_order(call: Call) -> tuple[int, int]:
    return call.request.seq, call.request.index or 0
