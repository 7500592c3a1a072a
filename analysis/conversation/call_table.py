"""The calls that wait for a response, by the id of their request: pairs requests with responses.

There is one table per requesting side, as ids belong to the side that chose them. An id is free again once it has been
answered; two requests in flight under one id are answered in the order in which they were sent. A response that fits no
request pairs with nothing: a wrong link is worse than none.

Memory is bounded whatever the traffic: by the number of open requests, by the bytes of their frames, and by the number
of ids remembered as answered. Everything forgotten is counted.
"""

from collections import OrderedDict, deque
from itertools import islice
from typing import Final

from analysis.conversation.addressing import Key
from analysis.conversation.call import Call, IdState, Losses
from analysis.conversation.http_exchange import Mark
from analysis.conversation.limited import Limited
from analysis.conversation.message import Request

OPEN_LIMIT: Final = 50_000
"""The most requests of one side that wait for a response; the oldest are forgotten first."""
OPEN_HTTP_LIMIT: Final = 15_000
"""The same over HTTP, where each request may have its own exchange and session."""
OPEN_BYTES: Final = 16 << 20
"""The most bytes in the frames of these; a single one may be larger."""
CROWD: Final = 1_000
CROWD_BYTES: Final = 1 << 20
"""With more open requests of one side, or more bytes in their frames, the older requests are packed."""
WHOLE: Final = 100
WHOLE_BYTES: Final = 1 << 20
"""How many of the last ones are not packed."""
GIVEN_UP_LIMIT: Final = 10_000
"""The most requests kept whose response may be lost and whose id was reused."""
ANSWERED_LIMIT: Final = 100_000
"""The most ids of one side that are remembered as answered, and as failed."""

# Enumeration members take ten times as long to look up as these.
_ID_NEVER_SEEN: Final = IdState.NEVER_SEEN
_ID_ANSWERED: Final = IdState.ANSWERED
_ID_FAILED: Final = IdState.FAILED


class CallTable:
    """The requests of one side, by id."""

    def __init__(self, limit: int = OPEN_LIMIT, bytes_limit: int = OPEN_BYTES) -> None:
        """Create an empty table.

        Args:
            limit: the most open requests.
            bytes_limit: the most bytes in their frames.
        """
        self.evicted = 0
        """Open requests that had to be forgotten: their responses pair with nothing."""
        self.dropped: list[Call] = []
        """Calls that this table has let go of without their end; whoever handles them takes them away."""
        self._limit, self._bytes_limit = limit, bytes_limit
        self._losses = Losses()
        self._open: OrderedDict[Key, Call] = OrderedDict()
        # Later requests under the same key: rarely needed, so other keys have no such queue.
        self._later: dict[Key, deque[Call]] = {}
        # How many under a key are cancelled: always the first ones, as responses and cancellations both go in order.
        self._cancelled: dict[Key, int] = {}
        self._answered: Limited[Key, tuple[int, int]] = Limited(ANSWERED_LIMIT)
        self._failed: Limited[Key, int] = Limited(ANSWERED_LIMIT)
        # Requests whose responses may be among lost records, and whose id was reused: no response can match them.
        self._given_up: deque[Call] = deque()
        # Requests whose values are kept, while there are many; in the order in which they were sent.
        self._whole: deque[Request] = deque()
        self._whole_bytes = 0
        # For frames with several requests, by number: how many are open. They share the frame's bytes.
        self._frames: dict[int, int] = {}
        self._count = self._bytes = 0

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._count

    @property
    def forgotten(self) -> int:
        """Counts forgotten ids, of any state, and losses of records; above 0, NEVER_SEEN proves nothing."""
        return self._answered.forgotten + self._failed.forgotten + self._losses.count + self.evicted

    def open(self, call: Call, key: Key) -> IdState:
        """Enter a call. One that cannot be answered (id null or an object) is not entered.

        Returns:
            The state of its key before.
        """
        state, request = self.state(key), call.request
        if not request.id.pairs:
            return state
        if state is _ID_ANSWERED:
            del self._answered[key]
        elif state is _ID_FAILED:
            self._failed.pop(key, None)
        while (first := self._open.get(key)) is not None and first.may_be_lost:
            if len(self._given_up) == GIVEN_UP_LIMIT:
                self.dropped.append(self._given_up.popleft())
            self._given_up.append(self._release(key))
        call.losses, call.losses_before = self._losses, self._losses.count
        if key in self._open:
            self._later.setdefault(key, deque()).append(call)
        else:
            self._open[key] = call
        self._hold(request)
        if self._count > CROWD or self._bytes > CROWD_BYTES:
            self._pack(request)
        limit = self._limit if call.http is None else min(self._limit, OPEN_HTTP_LIMIT)
        while self._count > 1 and (self._count > limit or self._bytes > self._bytes_limit):
            self.dropped.append(self._release(next(iter(self._open))))
            self.evicted += 1
        return state

    def answer(self, key: Key | None, t_ns: int = 0) -> Call | None:
        """Take a response: return the request that it answers, which is open no longer, or None if it fits none."""
        if key is None or key not in self._open:
            return None
        waiting = self._release(key)
        if key not in self._open:
            self._answered.keep(key, (waiting.request.seq, t_ns))
        return waiting

    def fail(self, key: Key) -> None:
        """Close a request that can no longer be answered."""
        if key in self._open:
            self._failed.keep(key, self._release(key).request.seq)

    def cancel(self, key: Key, t_ns: int, seq: int = -1, reason: str | None = None) -> Call | None:
        """Take a cancellation: return the request that it names, which stays open, or None if there is none."""
        first, later, before = self._open.get(key), self._later.get(key, ()), self._cancelled.get(key, 0)
        if first is None or before > len(later):
            return None
        waiting = later[before - 1] if before else first
        waiting.cancellation, waiting.cancel_reason = Mark(seq, t_ns), reason
        self._cancelled[key] = before + 1
        return waiting

    def get(self, key: Key) -> Call | None:
        """The request that a response would answer now."""
        return self._open.get(key)

    def answered(self, key: Key) -> int | None:
        """Number of the frame of the last request under a key, if that has been answered."""
        answered = self._answered.get(key)
        return None if answered is None else answered[0]

    def answered_ns(self, key: Key) -> int | None:
        """The stamp of its response, likewise."""
        answered = self._answered.get(key)
        return None if answered is None else answered[1]

    def forget(self) -> None:
        """Note lost frames, perhaps with responses and requests: open requests may be answered, any id may be used.

        Responses to open requests are still accepted. Nothing else that was known proves anything from now on.
        """
        self._losses.count += 1
        self._answered.clear()
        self._failed.clear()

    def clear(self) -> None:
        """Forget everything. Call requests refer to their session, and that to the table: a reference cycle."""
        tables = (
            self._open,
            self._later,
            self._cancelled,
            self._answered,
            self._failed,
            self._given_up,
            self._frames,
        )
        for known in tables:
            known.clear()
        self._whole.clear()
        self._count = self._bytes = self._whole_bytes = 0

    def state(self, key: Key) -> IdState:
        """The state of a key."""
        waiting = self.get(key)
        if waiting is not None:
            return waiting.id_state
        if key in self._answered:
            return _ID_ANSWERED
        # Hashing a key takes longer than all the rest.
        return _ID_FAILED if self._failed and key in self._failed else _ID_NEVER_SEEN

    def waiting(self) -> list[Call]:
        """All requests that wait, or waited when records were lost, in the order in which they were sent."""
        later = (call for queue in self._later.values() for call in queue)
        return sorted([*self._given_up, *self._open.values(), *later], key=_order)

    def oldest(self, count: int) -> list[Call]:
        """The requests under the first `count` waiting ids, roughly in the order they were sent; one per id."""
        return [*islice(self._open.values(), count)]

    def _pack(self, request: Request) -> None:
        """Pack older requests when there are very many, so that only the last ones keep their values."""
        self._whole.append(request)
        self._whole_bytes += len(request.frames[0].raw)
        while len(self._whole) > 1 and (len(self._whole) > WHOLE or self._whole_bytes > WHOLE_BYTES):
            oldest = self._whole.popleft()
            self._whole_bytes -= len(oldest.frames[0].raw)
            oldest.pack()

    def _hold(self, request: Request) -> None:
        frame, users = request.frames[0], 0
        if request.index is not None:
            users = self._frames.get(frame.seq, 0)
            self._frames[frame.seq] = users + 1
        self._bytes += 0 if users else len(frame.raw)
        self._count += 1

    def _release(self, key: Key) -> Call:
        """Remove and return the oldest request under `key`."""
        waiting, later = self._open[key], self._later.get(key)
        if waiting.cancellation is not None:
            self._cancelled[key] -= 1
        if later is None:
            del self._open[key]
            self._cancelled.pop(key, None)
        else:
            self._open[key] = later.popleft()
            if not later:
                del self._later[key]
        frame, users = waiting.request.frames[0], 1
        if waiting.request.index is not None:
            users = self._frames.pop(frame.seq)
            if users > 1:
                self._frames[frame.seq] = users - 1
        self._bytes -= 0 if users > 1 else len(frame.raw)
        self._count -= 1
        return waiting


def _order(waiting: Call) -> tuple[int, int]:
    return waiting.request.seq, waiting.request.index or 0
