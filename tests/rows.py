"""Tables that one test goes through: whatever fails in a row names it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def row(*words: object) -> Iterator[None]:
    """Name the row of a table in what its checks raise."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the row {', '.join(map(str, words))}")
        raise
