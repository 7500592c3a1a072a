"""The kinds of results that the modern era distinguishes by `resultType`, one row each."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from analysis.protocol.revisions import MODERN_ERA, NEWEST_RANK, Span

COMPLETE: Final = "complete"
"""The kind of a result without `resultType`."""
INTERIM: Final = "input_required"
"""The kind of a result that asks for input."""
INTERIM_MEMBER: Final = "inputRequests"
"""The member that makes a result an interim one, regardless of its `resultType`."""


class ResultType(NamedTuple):
    """One value of `resultType`."""

    value: str
    revisions: Span
    """The revisions that define it."""
    methods: Mapping[str, Span] | None = None
    """The methods of the requests that it may answer, each with the revisions in which it may; None for all."""

    def may_answer(self, method: str, rank: int) -> bool:
        """Whether a revision lets such a result answer a request of a method."""
        if self.methods is None:
            return self.revisions.includes(rank)
        return method in self.methods and self.methods[method].includes(rank)


_INTERIM_METHODS: Final[Mapping[str, Span]] = {
    "tools/call": MODERN_ERA,
    "prompts/get": MODERN_ERA,
    "resources/read": MODERN_ERA,
}
_TABLE: Final = (
    ResultType(COMPLETE, MODERN_ERA),
    ResultType(INTERIM, MODERN_ERA, _INTERIM_METHODS),
)

RESULT_TYPES: Final = {row.value: row for row in _TABLE}
"""Every kind of result that a revision defines, by the value of `resultType`."""

INTERIM_RESULT_METHODS: Final = frozenset(_INTERIM_METHODS)
"""Methods of requests that an interim result may answer in some revision."""


def is_defined(value: str, rank: int | None) -> bool:
    """Whether a revision defines a kind of result; a revision that is unknown is taken for the newest."""
    row = RESULT_TYPES.get(value)
    return row is not None and row.revisions.includes(NEWEST_RANK if rank is None else rank)
