"""Captures as a database: where the rows of each are, and a connection that has them all.

Two roads lead here. `open` is for the owner of the captures and a notebook: a connection without any lock. The jail for
SQL of anybody goes the same way in two steps: its parent calls `sources`, which fills caches and may write; its child
calls `prepare`, which only reads, and locks the connection afterwards.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import duckdb

Progress = Callable[[int, int], None]
"""Is told how many bytes of how many have been read."""


class Source(NamedTuple):
    """Where the rows of one capture are."""

    path: Path
    """The capture."""
    id: str
    """What its rows have in the column `capture`."""
    database: Path | None
    """The file to attach, read-only; None where the capture itself is read: it grows, or cannot be cached."""


class Sources(NamedTuple):
    """Where the rows of several captures are."""

    found: list[Source]
    refused: list[tuple[Path, Exception]]
    """Captures of which nothing can be had, and why: no capture, a newer format."""


def sources(paths: Iterable[Path], *, findings: bool = False, progress: Progress | None = None) -> Sources:
    """Find the rows of captures, and load into the cache what is not there yet.

    Args:
        paths: the captures.
        findings: whether the table `findings` is to be filled.
        progress: is told how far it is.
    """
    raise NotImplementedError


def prepare(
    connection: duckdb.DuckDBPyConnection,
    found: Iterable[Source],
    *,
    findings: bool = False,
    progress: Progress | None = None,
) -> None:
    """Give a fresh connection the tables and views over all sources: it attaches, copies or loads, as is quickest.

    It writes no file, and needs none but those of the sources once it is done: now access can be taken away.

    Args:
        connection: to a database in memory.
        found: where the rows are.
        findings: whether the table `findings` is to be filled.
        progress: is told how far it is.
    """
    raise NotImplementedError
