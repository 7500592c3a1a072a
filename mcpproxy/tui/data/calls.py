"""Calls: the requests of a capture and how they ended, as columns of some 25 bytes per request."""

from array import array
from typing import Final, NamedTuple

from analysis.conversation.call import Outcome, ProbableAnswer

NONE: Final = (1 << 32) - 1
"""No row, or no call."""
OUTCOMES: Final = (*Outcome,)
OPEN: Final = len(OUTCOMES)
"""The code of a call whose end is not known."""


class Cancellation(NamedTuple):
    """What a cancellation means."""

    call: int
    """Number of the call that it names."""
    abandoned_ns: int | None
    """How long its sender had waited, if it abandons the call."""


class Calls:
    """The calls of a capture as columns, by their numbers."""

    def __init__(self) -> None:
        self.request = array("I")
        """Row of the request."""
        self.response = array("I")
        """Row of the response, or NONE."""
        self.latency_ns = array("q")
        """How long the response took; -1 if there is none."""
        self.outcome = array("B")
        """Index into OUTCOMES, or OPEN."""
        self.kind = array("H")
        """Number of its kind among `Reading.kinds`."""
        self.is_cancelled = array("B")
        """Whether it was cancelled, even if it was answered later."""
        self.abandoned_ns: dict[int, int] = {}
        """How long abandoned requests had waited when they were cancelled."""
        self.cancelled_at: dict[int, int] = {}
        """Rows of their cancellations, by the numbers of cancelled calls: of messages, or of ends of HTTP exchanges."""
        self.cancellations: dict[int, Cancellation] = {}
        """Messages that cancel a call, by row."""
        self.probable_answers: dict[int, ProbableAnswer] = {}
        """Responses that match no request, by the unanswered request for which each was probably meant."""
        self.end = array("I")
        """Row of the response or else the cancellation that ended it, or NONE."""
        self.settled = array("I")
        """Numbers in the order in which they were answered or cancelled; at the end, those without a response.
        Twice if a response came after the cancellation."""
        self.left_out = 0
        """Requests above the maximum."""

    def __len__(self) -> int:
        return len(self.outcome)

    def add(self, row: int, kind: int) -> int:
        """Add a request; returns its number."""
        self.request.append(row)
        self.response.append(NONE)
        self.latency_ns.append(-1)
        self.kind.append(kind)
        self.is_cancelled.append(0)
        self.end.append(NONE)
        self.outcome.append(OPEN)
        return len(self.outcome) - 1
