"""Kinds of changes of results: values that the normaliser does not pass over."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

VALUE_CHANGED: Final = Kind(
    "value/changed",
    Severity.NOTE,
    "a value in a result changed",
    "The same request got another value. Whether that matters depends on what the value means.",
    "/structuredContent/count: 3 → 4",
    "value",
)

KINDS: Final = (VALUE_CHANGED,)
