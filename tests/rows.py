"""Tables that one test goes through: a failure names its row."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def row(*words: object) -> Iterator[None]:
    """Add the row of a table to the error that its checks raise."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the row {', '.join(map(str, words))}")
        raise
