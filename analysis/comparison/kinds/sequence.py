"""Kinds of changes of the order of calls: calls that come, go or move."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

CALL_MISSING: Final = Kind(
    "sequence/missing",
    Severity.NOTE,
    "a call is no longer made",
    "The client no longer makes the call, so nothing is known of whether it would still work.",
    "tools/call fetch: 3 times → never",
)
CALL_NEW: Final = Kind(
    "sequence/new",
    Severity.NOTE,
    "a call is made that was not made before",
    "The client or its model needs something else, perhaps because a definition changed. There is nothing to "
    "compare the results with.",
    "tools/call fetch: never → 3 times",
)
CALL_LESS_OFTEN: Final = Kind(
    "sequence/less-often",
    Severity.NOTE,
    "a call is made less often",
    "The same work takes fewer calls, or is not finished.",
    "tools/call search: 12 times → 5 times",
)
CALL_MORE_OFTEN: Final = Kind(
    "sequence/more-often",
    Severity.NOTE,
    "a call is made more often",
    "A model that repeats a call often does not understand its result, or got an error. Each call costs time "
    "and tokens.",
    "tools/call search: 2 times → 40 times",
)
CALL_MOVED: Final = Kind(
    "sequence/moved",
    Severity.NOTE,
    "a call is made earlier or later than before",
    "The calls are the same in another order. Calls that were in flight together have no order, and are not reported.",
    "search, fetch → fetch, search",
)

KINDS: Final = (CALL_MISSING, CALL_NEW, CALL_LESS_OFTEN, CALL_MORE_OFTEN, CALL_MOVED)
