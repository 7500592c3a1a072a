"""Kinds of changes of latency."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

_LIMITS: Final = (
    "It is reported only if chance does not explain it (with Holm's correction for all calls of the comparison), and "
    "if it is certainly more than 10 % and 0.5 ms. A recording has times, not their reasons: a machine that was busier "
    "during one of the recordings looks like a slower server, so record both sides on the same quiet machine, more "
    "than once."
)

SLOWER: Final = Kind(
    "latency/slower",
    Severity.WORSE,
    "a call takes longer",
    f"The median rose, so users wait longer, and clients may time out. {_LIMITS}",
    "tools/call search p50: 12 ms → 31 ms",
    "slower",
)
TAIL_SLOWER: Final = Kind(
    "latency/tail-slower",
    Severity.WORSE,
    "the slowest calls take longer",
    "The 95th percentile rose, and a rise of the median is not certain: something is slow now and then, such as a "
    f"cache, a lock or a pause. {_LIMITS}",
    "tools/call search p95: 40 ms → 900 ms",
    "slower",
)
SLOWER_WITHIN_LIMIT: Final = Kind(
    "latency/slower-within-limit",
    Severity.WORSE,
    "a call takes longer, but not certainly by more than --fail-on accepts",
    "The call is slower, but the slowdown may be as small as the percentage of `--fail-on slower=`, so this change "
    f"does not fail the comparison. {_LIMITS}",
    "tools/call search p50: 12 ms → 14 ms, with --fail-on slower=20%",
)
FASTER: Final = Kind(
    "latency/faster",
    Severity.NOTE,
    "a call takes less time",
    f"This is good news, unless the call does less than before, or fails early. {_LIMITS}",
    "tools/call search p50: 31 ms → 12 ms",
)

KINDS: Final = (SLOWER, TAIL_SLOWER, SLOWER_WITHIN_LIMIT, FASTER)
