"""Kinds of changes of how calls end: results, errors, calls without a response."""

from typing import Final

from analysis.comparison.kind import Kind, Severity
from analysis.protocol.error_codes import INTERNAL_ERROR, INVALID_PARAMS

NOW_FAILS: Final = Kind(
    "outcome/now-fails",
    Severity.WORSE,
    "a call that got a result before now fails",
    "The same request (method, name and arguments) got a result before, and now gets an error each time.",
    f'tools/call search {{"q": "x"}}: result → error {INVALID_PARAMS}',
    "outcome",
)
NOW_UNANSWERED: Final = Kind(
    "outcome/now-unanswered",
    Severity.WORSE,
    "a call that got a result before now gets no response",
    "The same request (method, name and arguments) got a result before. Now its sender waits in vain, gives up, or "
    "loses the connection.",
    'tools/call search {"q": "x"}: result → abandoned',
    "outcome",
)
SOMETIMES_FAILS: Final = Kind(
    "outcome/sometimes-fails",
    Severity.MAY_BREAK,
    "a call that never failed before now fails sometimes",
    "The same request (method, name and arguments) got a result each time before. Now it got a result at least once, "
    "and failed at least once.",
    f'tools/call search {{"q": "x"}}: 5 results → 4 results, 1 error {INTERNAL_ERROR}',
    "outcome",
)
ERROR_RATE_HIGHER: Final = Kind(
    "outcome/error-rate-higher",
    Severity.WORSE,
    "calls fail more often",
    "The share of calls that failed rose by more than chance explains (Fisher's exact test, with Holm's correction for "
    "all calls of the comparison). With few calls nothing is reported, because nothing can be said.",
    "tools/call search: 1 of 200 failed → 31 of 180 failed",
    "outcome",
)
ERROR_CHANGED: Final = Kind(
    "outcome/error-changed",
    Severity.MAY_BREAK,
    "a call fails in another way",
    "The same request failed on both sides, with another error code, or with a tool error instead of a protocol error. "
    "A client that handles the old one does not recognise the new one.",
    f'tools/call search {{"q": 1}}: error {INVALID_PARAMS} → tool_error',
    "outcome",
)
NOW_CANCELLED: Final = Kind(
    "outcome/now-cancelled",
    Severity.NOTE,
    "a call that got a result before was cancelled",
    "Its sender withdrew the request before a response came, so nothing is known of whether it would still work.",
    'tools/call search {"q": "x"}: result → cancelled',
)
ERROR_TEXT_CHANGED: Final = Kind(
    "outcome/error-text-changed",
    Severity.NOTE,
    "a call fails with another text",
    "The same request failed on both sides in the same way, but the text differs in more than numbers and ids. Models "
    "and people read it; programs should not.",
    "tools/call search: 'no such index' → 'unknown index'",
)
NOW_WORKS: Final = Kind(
    "outcome/now-works",
    Severity.NOTE,
    "a call that failed before now works",
    "The same request (method, name and arguments) failed each time before, and now gets a result.",
    f'tools/call search {{"q": "x"}}: error {INTERNAL_ERROR} → result',
)
ERROR_RATE_LOWER: Final = Kind(
    "outcome/error-rate-lower",
    Severity.NOTE,
    "calls fail less often",
    "The share of calls that failed fell by more than chance explains (Fisher's exact test, with Holm's correction).",
    "tools/call search: 31 of 180 failed → 1 of 200 failed",
)

KINDS: Final = (
    NOW_FAILS,
    NOW_UNANSWERED,
    SOMETIMES_FAILS,
    ERROR_RATE_HIGHER,
    ERROR_CHANGED,
    NOW_CANCELLED,
    ERROR_TEXT_CHANGED,
    NOW_WORKS,
    ERROR_RATE_LOWER,
)
