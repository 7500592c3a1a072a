"""Loads a capture in both ways, by SQL and by the fold, and compares all rows."""

import os
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
from analysis.store.sandbox.protocol import read, write
from analysis.store.tables import NAMES, creation

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


class Both:
    """Two files with the rows of one capture."""

    def __init__(self, path: Path, place: Path, *, memory: int = MEMORY) -> None:
        self.doubt: str | None = None
        """Why it was not loaded by SQL."""
        self.plain, self.folded = place / "plain" / "rows.duckdb", place / "folded" / "rows.duckdb"
        for file in (self.plain, self.folded):
            file.parent.mkdir(parents=True)
        try:
            made = load_plain(path, self.plain, "A", options=_OPTIONS, memory=memory)
            with _attached(self.plain, memory) as connection, Loader(connection) as loader:
                loader.load(path, "A", plain=made)
        except Doubt as doubt:
            self.doubt = str(doubt)
            return
        with _attached(self.folded, memory) as connection:
            connection.execute(creation())
            with Loader(connection) as loader:
                loader.load(path, "A")

    def differences(self, *, is_growing: bool = False) -> dict[str, list[Any]]:
        """The rows that only one of them has, by table and file; empty if there are none.

        Args:
            is_growing: whether the capture is, and so lasts longer at each look.
        """
        found: dict[str, list[Any]] = {}
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.plain}' as plain (read_only)")
            connection.execute(f"attach '{self.folded}' as folded (read_only)")
            for table in NAMES:
                for one, other in (("plain", "folded"), ("folded", "plain")):
                    given = "* exclude (duration_ns)" if is_growing and table == "captures" else "*"
                    only = f"select {given} from {one}.{table} except all select {given} from {other}.{table} limit 3"
                    rows = connection.execute(only).fetchall()
                    if rows:
                        found[f"{table}, only {one}"] = rows
        return found


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
            assert both.differences() == {}
        else:
            self.doubts[both.doubt] = self.doubts.get(both.doubt, 0) + 1
        for file in (both.plain, both.folded):
            file.unlink(missing_ok=True)
