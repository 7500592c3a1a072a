"""Latencies of a comparison in words: the quantile that a change has as its value, and intervals of ratios."""

from typing import Any, Final, NamedTuple

from analysis.comparison.change import LatencyRow
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import ms_text

_MEMBERS: Final = {"p50_ms": "p50", "p95_ms": "p95"}
_NS_PER_MS: Final = 1_000_000
_MAX_MS: Final = 1e12
_MAX_SHOWN_RATIO: Final = 100_000


class LatencyValue(NamedTuple):
    """A quantile of the latencies of one side."""

    quantile: str
    """`p50` or `p95`."""
    ns: int
    """The latency in nanoseconds."""
    calls: int
    """How many calls it is of."""

    @property
    def text(self) -> str:
        """The value in words: `p50 33.8 ms of 29 calls`."""
        return f"{self.quantile} {ms_text(self.ns)} of {count_text(self.calls, 'call')}"


def latency_of(value: Any) -> LatencyValue | None:
    """Returns the value of a change of latency, as `analysis/comparison/latency` makes it; None if it is another."""
    if not isinstance(value, dict) or len(value) != 2 or type(value.get("calls")) is not int:
        return None
    for member, quantile in _MEMBERS.items():
        ms = value.get(member)
        if isinstance(ms, int | float) and 0 <= ms < _MAX_MS:
            return LatencyValue(quantile, round(ms * _NS_PER_MS), value["calls"])
    return None


def ratio_text(interval: tuple[float, float] | None) -> str:
    """Returns the interval of a ratio with two significant digits: `×1.8–2.0`; empty if there is none."""
    return "" if interval is None else f"×{_figure(interval[0])}–{_figure(interval[1])}"


def interval_of(row: LatencyRow, quantile: str) -> tuple[float, float] | None:
    """Returns the interval of the ratio of a quantile, `p50` or `p95`; None if it is unknown."""
    return row.p50_interval if quantile == "p50" else row.p95_interval


def _figure(ratio: float) -> str:
    if ratio >= _MAX_SHOWN_RATIO:
        return f">{_MAX_SHOWN_RATIO:,}"
    return f"{ratio:#.2g}".rstrip(".") if ratio < 9.95 else f"{ratio:,.0f}"
