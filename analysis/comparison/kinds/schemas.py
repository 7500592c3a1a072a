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

KINDS: Final = (ARGUMENT_REQUIRED,)
