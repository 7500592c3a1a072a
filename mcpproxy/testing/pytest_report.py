"""Failure: an exception of a test in which a mock did not have what it was asked for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import pytest

from mcpproxy.testing.misses import RequestsMissed


class Failure(NamedTuple):
    """What a test raised, and what its report shows instead: the miss, which is probably the reason."""

    raised: "pytest.ExceptionInfo[BaseException]"
    shown: "pytest.ExceptionInfo[BaseException]"
    misses: Sequence[RequestsMissed]

    @classmethod
    def of(cls, raised: "pytest.ExceptionInfo[BaseException]", misses: Sequence[RequestsMissed]) -> Self | None:
        """Returns the failure of a test.

        Args:
            raised: its exception.
            misses: what its mocks did not have.

        Returns:
            None if the report should show the exception itself: there was no miss, or the test was skipped or ended.
        """
        error = raised.value
        if not misses or not isinstance(error, (Exception, BaseExceptionGroup, pytest.fail.Exception)):
            return None
        shown = pytest.fail.Exception("\n".join(map(str, misses)), pytrace=False).with_traceback(error.__traceback__)
        return cls(raised, pytest.ExceptionInfo.from_exception(shown), misses)

    @property
    def is_only_miss(self) -> bool:
        """Whether the exception says nothing but that something was missed."""
        answers = {answer for missed in self.misses for answer in missed.answers}
        return all(isinstance(error, RequestsMissed) or _text(error) in answers for error in _leaves(self.raised.value))


def _text(error: BaseException) -> str | None:
    """Returns the text of an exception, which for clients of MCP is that of the server's; None if it has none."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever the `__str__` of a test raises, the report is more important
        return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
