"""When the exception of a test is only the miss again, which its report shows already."""

from types import TracebackType

import pytest

from mcpproxy.testing.misses import RequestsMissed
from mcpproxy.testing.pytest_report import Failure

ANSWER = "mcpproxy mock: no answer was recorded for tools/call search"


class Refused(Exception):
    """An exception whose text is what its caller wants."""

    def __str__(self) -> str:
        text = self.args[0]
        if isinstance(text, Exception):
            raise text
        return text  # type: ignore[no-any-return] # it may be anything


def is_only_miss(error: BaseException) -> bool:
    """Returns whether an exception says nothing more than a miss."""
    missed = RequestsMissed("1 request is not in x.mcpcap")
    missed.answers = ("another", ANSWER)
    failure = Failure.of(pytest.ExceptionInfo.from_exception(error.with_traceback(raised_here())), [missed])
    assert failure is not None
    return failure.is_only_miss


def raised_here() -> TracebackType | None:
    """Returns a traceback."""
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__


def test_the_text_of_an_exception_that_only_repeats_a_miss_is_the_answer_of_the_mock() -> None:
    repeated: tuple[Exception, ...] = (
        Refused(ANSWER),
        RequestsMissed("2 requests are not in x.mcpcap"),
        ExceptionGroup("unhandled errors in a TaskGroup", [Refused(ANSWER), RequestsMissed("x")]),
    )
    for error in repeated:
        assert is_only_miss(error), error
    others: tuple[Exception, ...] = (
        Refused(f"the database is corrupt; also {ANSWER}"),
        Refused(f"{ANSWER}\nin the middle of a write"),
        ExceptionGroup("x", [Refused(ANSWER), ValueError("of the test")]),
        ValueError(""),
    )
    for error in others:
        assert not is_only_miss(error), error


@pytest.mark.parametrize("text", [RuntimeError("no text"), 5, None])
def test_an_exception_without_a_text_says_something_else(text: object) -> None:
    assert not is_only_miss(Refused(text))
