"""Expectations: a side in a file, which `compare --save` writes and `OLD` may name."""

from pathlib import Path

from analysis.comparison.side import Side


def save(side: Side, path: Path) -> None:
    """Write a side to a new file.

    Raises:
        CannotCreate: the file exists, or cannot be written.
    """
    raise NotImplementedError


def load(name: str, path: Path) -> Side | None:
    """Returns the side in a file, or None if the file is no expectation.

    Raises:
        CaptureError: it cannot be read, is damaged, or a later version wrote it.
    """
    raise NotImplementedError
