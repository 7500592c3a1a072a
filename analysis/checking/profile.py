"""Costs: how often each rule was called, and how long it took.

Measuring takes longer than most rules do, so it is done only on request (`check --profile`).
"""

from collections.abc import Callable, Iterable
from time import perf_counter_ns

from analysis.rules.finding import Finding


class Cost:
    """The cost of one rule."""

    __slots__ = ("calls", "ns")

    def __init__(self) -> None:
        self.calls = 0
        """How often it was called."""
        self.ns = 0
        """How long its calls took, without the estimated time of the measurement itself."""


class Costs:
    """The costs of rules, by their ids."""

    def __init__(self) -> None:
        self.rules: dict[str, Cost] = {}
        self._overhead_ns = min(_duration_ns(()) for _ in range(1000))

    def measured_hook(self, rule: str, hook: Callable[..., Iterable[Finding]]) -> Callable[..., Iterable[Finding]]:
        """Returns a function that calls the hook and measures the time until it has returned all its findings."""
        cost = self.rules.setdefault(rule, Cost())

        def timed_hook(*arguments: object) -> Iterable[Finding]:
            start = perf_counter_ns()
            try:
                return [*hook(*arguments)]
            finally:
                cost.calls += 1
                cost.ns += max(0, perf_counter_ns() - start - self._overhead_ns)

        return timed_hook


def _duration_ns(findings: Iterable[Finding]) -> int:
    start = perf_counter_ns()
    _ = [*findings]
    return perf_counter_ns() - start
