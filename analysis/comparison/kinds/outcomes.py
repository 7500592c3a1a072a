"""Kinds of changes of how calls end: results, errors, calls without a response."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

NOW_FAILS: Final = Kind(
    "outcome/now-fails",
    Severity.WORSE,
    "a call fails that did not fail before",
    "The same request got a result before and fails now.",
    'tools/call search {"q": "x"}: result → error -32602',
    "outcome",
)

KINDS: Final = (NOW_FAILS,)
