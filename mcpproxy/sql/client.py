"""SqlClient: sends SQL from the screens to the worker process; a thread receives its replies.

The app has one SqlClient. Its process (`mcpproxy.sql.worker`) starts with the first query and ends with the app, even
if the app is killed. If the process dies, the client reports that, and the next query starts another. The client loads
no database.
"""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from analysis.child_process import PythonChild, as_json

GRACE_S: Final = 3.0
"""How long a process may take to stop a query before it is killed."""
MAX_WORKER_MESSAGE_BYTES: Final = 256 << 20
"""The maximum size of a message, in bytes."""


class Relation(NamedTuple):
    """A view or a table."""

    name: str
    is_view: bool
    row: str
    """What a row represents."""
    example: str
    columns: Sequence[tuple[str, str, str]]
    """The name, the type and the meaning of each column."""


class ResultTable(NamedTuple):
    """The rows of a query, as text."""

    columns: Sequence[tuple[str, bool]]
    """The name of each column, and whether it contains numbers."""
    rows: Sequence[Sequence[str | None]]
    """The cells of each row; None is NULL."""
    is_cut: bool
    """Whether there are more rows than these."""
    took_s: float
    has_grown: bool
    """Whether a capture has grown since it was loaded."""


class WrittenResult(NamedTuple):
    """A result that was written as CSV or JSON lines, with all values unchanged."""

    rows: int
    text: str
    """The lines; empty if they are in a file."""
    is_cut: bool
    """Whether there are more rows than fit."""


class SqlClient:
    """Runs one query at a time. Attributes contain the state and the result; `on_change` reports a change."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called from another thread when an attribute has changed."""
        self.relations: Sequence[Relation] = ()
        self.keywords: Sequence[str] = ()
        self.is_busy = False
        self.progress: tuple[int, int] | None = None
        """The number of bytes loaded so far, and the total."""
        self.notes: list[str] = []
        """Messages about what is missing from the results."""
        self.result: ResultTable | None = None
        self.written_result: WrittenResult | None = None
        """The last result that was written; None until then."""
        self.error: Sequence[str] = ()
        self._process: PythonChild | None = None
        self._turn = 0
        self._killed_turn = 0
        """The last turn that did not stop on request."""

    def start(self) -> None:
        """Start the process, which reports the available relations."""
        if self._process is not None and self._process.is_alive:
            return
        self._process = process = PythonChild("mcpproxy.sql.worker", longest=MAX_WORKER_MESSAGE_BYTES)
        process.listen(self._on_message, lambda _status, _fault: self._on_end(process))

    def run_query(self, paths: Sequence[Path], sql: str, *, anew: bool = False) -> None:
        """Run a query, and stop the one that is running.

        Args:
            paths: the captures.
            sql: the statements; the last one determines the result.
            anew: whether to reload captures that have grown, even if that takes long.
        """
        self.stop()
        self.result = None
        self._send(paths, {"sql": sql, "anew": anew})

    def write_result(self, paths: Sequence[Path], sql: str, form: str, path: Path | None, max_bytes: int) -> None:
        """Run a query again and write its result, without the limit on rows that results on the screen have.

        Args:
            paths: the captures.
            sql: as for `run_query`.
            form: `csv` or `json`.
            path: the file to create, which must not exist; None to return the lines as text.
            max_bytes: the maximum size of the text, in bytes; rows that do not fit are left out.
        """
        self.stop()
        self.written_result = None
        options = {"form": form, "most": max_bytes, "place": None if path is None else os.path.abspath(path)}
        self._send(paths, {"sql": sql, "write": options})

    def _send(self, paths: Sequence[Path], request: dict[str, object]) -> None:
        self._turn += 1
        self.is_busy, self.progress, self.error, self.notes = True, None, (), []
        try:
            self.start()
            assert self._process is not None
            absolute_paths = [os.path.abspath(path) for path in paths]
            self._process.send(as_json({"turn": self._turn, "paths": absolute_paths, **request}))
        except OSError as error:
            self._fail(f"cannot run the query: {error}")

    def stop(self) -> bool:
        """Stop the running query; returns False if there is none."""
        process, turn = self._process, self._turn
        if not self.is_busy or process is None or not process.is_alive:
            return False

        def kill_if_busy() -> None:
            if self.is_busy and self._turn == turn:
                self._killed_turn = turn
                process.kill()

        process.send(as_json({"stop": turn}))
        timer = threading.Timer(GRACE_S, kill_if_busy)
        timer.daemon = True
        timer.start()
        return True

    def close(self) -> None:
        """End the process."""
        self.on_change = None
        process, self._process = self._process, None
        if process is not None:
            process.close()

    # ---- in a thread

    def _on_end(self, process: PythonChild) -> None:
        if process is self._process and self.is_busy:
            has_died = self._killed_turn != self._turn
            self._fail(
                "the process that runs queries has ended; query again to start another" if has_died else "stopped"
            )
            self._report_change()

    def _report_change(self) -> None:
        on_change = self.on_change
        if on_change is not None:
            on_change()

    def _fail(self, reason: str) -> None:
        self.error, self.is_busy = (reason,), False

    def _on_message(self, data: bytes) -> None:
        message = orjson.loads(data)
        if "relations" in message:
            self.relations = [
                Relation(**{**relation, "columns": [tuple(column) for column in relation["columns"]]})
                for relation in message["relations"]
            ]
            self.keywords = message["keywords"]
        elif message["turn"] != self._turn:
            return
        elif "progress" in message:
            loaded, total = message["progress"]
            self.progress = loaded, total
        elif "note" in message:
            self.notes.append(message["note"])
        elif "error" in message:
            self.error, self.is_busy = message["error"], False
        elif "written" in message:
            self.written_result, self.is_busy = WrittenResult(**message["written"]), False
        else:
            result = message["answer"]
            columns = [(name, is_number) for name, is_number in result["columns"]]
            self.result = ResultTable(columns, result["rows"], result["more"], result["took_s"], result["grown"])
            self.is_busy = False
        self._report_change()
