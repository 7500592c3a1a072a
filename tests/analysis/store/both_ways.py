"""Loads a capture in both ways, by SQL and by the fold, and compares all rows."""

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import duckdb
import pytest
from orjson import dumps

from analysis.store.cache import _OPTIONS, _attached
from analysis.store.load import Loader
from analysis.store.plain import child, parent
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.parent import load_plain
from analysis.store.plain.pipes import read, write
from analysis.store.tables import NAMES
from tests.analysis.store import spare

MEMORY = 256_000_000


class InThread:
    """The child in a thread of this process: without its limits, and without the half second that a process takes."""

    def __init__(self, module: str, *, bare: bool = False) -> None:
        assert module == child.__name__
        assert bare
        self._requests, self.stdin = os.pipe()
        self.stdout, self._answers = os.pipe()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            setup = read(self._requests)
            if setup is not None:
                with child.locked(setup) as connection:
                    child.serve(connection, self._requests, self._answers)
        except BrokenPipeError:
            pass
        except duckdb.Error as error:
            with suppress(OSError):
                write(self._answers, dumps({"failed": type(error).__name__}))
        finally:
            os.close(self._requests)
            os.close(self._answers)

    def close(self) -> None:
        os.close(self.stdin)
        os.close(self.stdout)
        self._thread.join()


class Silent:
    """A child that never says anything: for doubts that arise without it, which costs no database."""

    def __init__(self, module: str, *, bare: bool = False) -> None:
        assert module == child.__name__
        assert bare
        self._requests, self.stdin = os.pipe()
        self.stdout, answers = os.pipe()
        os.close(answers)

    def close(self) -> None:
        for end in (self._requests, self.stdin, self.stdout):
            os.close(end)


Rows = tuple[list[str], list[tuple[Any, ...]]]


class Both:
    """The rows of one capture, made in both ways."""

    def __init__(self, path: Path, place: Path, *, memory: int = MEMORY) -> None:
        self.doubt: str | None = None
        """Why it was not loaded by SQL."""
        self.plain = place / "plain" / "rows.duckdb"
        self.plain.parent.mkdir(parents=True)
        try:
            made = load_plain(path, self.plain, "A", options=_OPTIONS, memory=memory)
            with _attached(self.plain, memory) as connection:
                with Loader(connection) as loader:
                    loader.load(path, "A", plain=made)
                self._plain = _rows(connection)
        except Doubt as doubt:
            self.doubt = str(doubt)
            return
        with spare.empty() as connection:
            with Loader(connection) as loader:
                loader.load(path, "A")
            self._folded = _rows(connection)

    def differences(self, *, is_growing: bool = False) -> dict[str, list[Any]]:
        """The rows that only one of them has, by table and file; empty if there are none.

        Args:
            is_growing: whether the capture is, and so lasts longer at each look.
        """
        found: dict[str, list[Any]] = {}
        for table in NAMES:
            without = "duration_ns" if is_growing and table == "captures" else None
            plain, folded = _counted(self._plain[table], without), _counted(self._folded[table], without)
            for name, rows in (("plain", plain - folded), ("folded", folded - plain)):
                if rows:
                    found[f"{table}, only {name}"] = list(rows)[:3]
        return found


def _rows(connection: duckdb.DuckDBPyConnection) -> dict[str, Rows]:
    found = {}
    for table in NAMES:
        names = [column[0] for column in connection.execute(f"from {table}").description or ()]
        found[table] = names, connection.fetchall()
    return found


def _counted(given: Rows, without: str | None) -> Counter[str]:
    names, rows = given
    return Counter(repr([each for each in zip(names, row, strict=True) if each[0] != without]) for row in rows)


class Ways:
    """Compares many captures, and counts how they were loaded."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.count = 0
        self.plain = 0
        self.doubts: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(parent, "SMALLEST", 0)
        self._patch.setattr(parent, "PythonChild", InThread)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def compare(self, path: Path) -> None:
        """Load a capture in both ways; fail if a row differs."""
        self.count += 1
        both = Both(path, self._place / f"{self.count}")
        if both.doubt is None:
            self.plain += 1
            different = both.differences()
            assert not different, (path, different)
        else:
            self.doubts[both.doubt] = self.doubts.get(both.doubt, 0) + 1
        both.plain.unlink(missing_ok=True)
