"""Kinds of changes of schemas, judged with direction: arguments may only widen, results may only narrow."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

ARGUMENT_REQUIRED: Final = Kind(
    "arguments/newly-required",
    Severity.BREAKING,
    "an argument is required now",
    "Calls without the argument, which were valid before, are refused from now on.",
    '"required": ["query"] → ["query", "limit"]',
)
UNDECIDED: Final = Kind(
    "schema/undecided",
    Severity.UNKNOWN,
    "it could not be decided whether a change of a schema is compatible",
    "The schema refers to something outside of itself, is not valid, or is too large. Unknown is not compatible.",
    '{"$ref": "https://example.com/filter.json"} → {"$ref": "https://example.com/filter-2.json"}',
)

KINDS: Final = (ARGUMENT_REQUIRED, UNDECIDED)
