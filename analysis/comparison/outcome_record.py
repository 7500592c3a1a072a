"""What the aspect `outcomes` observes: for each request and each call, how often it ended in which way."""

from typing import Final

from msgspec import Struct, field

from analysis.comparison.change import Place

NEUTRAL: Final = frozenset({"cancelled"})
"""Endings that say nothing about whether a call works."""
WITHOUT_RESPONSE: Final = frozenset({"abandoned", "failed", "unanswered"})
"""Endings of calls that got no response although their sender waited for one."""


class Ending(Struct):
    """One way in which a request ended."""

    place: Place
    """The first frame that shows it: the response, or the request if there is none."""
    count: int = 0
    texts: tuple[str, ...] = ()
    """The first few different texts of errors. Untrusted text, truncated."""


class RequestRow(Struct):
    """One request: all calls with equal arguments."""

    sender: str
    method: str
    """Untrusted text, truncated."""
    name: str
    """The tool, prompt or URI, truncated; empty if the request names none. Untrusted text."""
    endings: dict[str, Ending] = field(default_factory=dict)
    """By label: `result`, `tool_error`, `error -32602` and so on."""

    @property
    def succeeded(self) -> int:
        """How many calls got a result."""
        ending = self.endings.get("result")
        return 0 if ending is None else ending.count

    @property
    def failures(self) -> dict[str, Ending]:
        """The ways in which it failed."""
        return {label: ending for label, ending in self.endings.items() if is_failure(label)}

    @property
    def failed(self) -> int:
        """How many calls failed."""
        return sum(ending.count for ending in self.failures.values())


class CallRow(Struct):
    """All calls of one tool, prompt or method by one side."""

    sender: str
    method: str
    """Untrusted text, truncated."""
    name: str
    """As in `RequestRow`."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """How many calls ended in which way."""

    @property
    def rate(self) -> tuple[int, int]:
        """How many calls failed, of how many that did not end in a neutral way."""
        failed = sum(count for label, count in self.outcomes.items() if is_failure(label))
        return failed, failed + self.outcomes.get("result", 0)


class OutcomesRecord(Struct):
    """How the calls of a side ended."""

    requests: dict[str, RequestRow]
    """By `RequestKey.digest`."""
    calls: dict[str, CallRow]
    """By a digest of sender, method and name."""
    count: int
    """How many calls there are."""
    requests_ceiling: str | None = None
    """The digest from which on no request is kept, because there were too many; see `Sample`."""
    calls_ceiling: str | None = None
    """The same for calls."""


def is_failure(label: str) -> bool:
    """Whether a call that ended in this way failed."""
    return label != "result" and label not in NEUTRAL
