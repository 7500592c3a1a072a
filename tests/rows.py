"""For tests that go through a table: a failure names the row."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def row(*words: object) -> Iterator[None]:
    """Add the row of a table to an error raised by its checks."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the row {', '.join(map(str, words))}")
        raise
