"""The process that runs SQL for the screens; requests and replies are JSON, exchanged with `mcpproxy.sql.client`.

The screens never load a database, and never wait for one. Their queries go to this process, which loads the captures
and queries the sandbox, its own child process. It ends with its stdin, and the sandbox ends with it, so neither
outlives the screens, however they end.

Requests: `{"turn": N, "paths": […], "sql": "…"}`; `"anew": true` reloads captures that have grown. With `write`, the
          result is written: `{"form": "csv" or "json", "place": a new file, or null for a text, "most": its bytes}`.
          `{"stop": N}` stops that turn, even if it has not begun, and leaves everything else unchanged.
Replies: `{"relations": […], "keywords": […]}` once; then, with the `turn` that they belong to: `progress`
          [done, total], `note` (a text), and at the end `answer`, `written` or `error` (lines). A result is bounded:
          `more` says that rows were left out.
"""

import signal
import time
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import main_thread
from types import FrameType
from typing import Any, Final, NoReturn

import orjson

from analysis.child_process import Parent, from_json
from analysis.store.reference import relations
from analysis.store.sandbox.parent import Limits
from analysis.store.sandbox.protocol import QueryError
from captures.listing import segments
from captures.new_file import new_file
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.session import SqlSession, error_lines
from mcpproxy.sql.sql_results import cell_formatter, csv_lines, json_lines
from mcpproxy.sql.statements import KEYWORDS

MAX_RESULT_ROWS: Final = 10_000
MAX_RESULT_CHARS: Final = 8 << 20
"""The maximum number of characters in all cells of a result."""
MAX_CELL_CHARS: Final = 4000
"""The maximum number of characters in a cell."""
MAX_QUICK_LOAD_S: Final = 2.0
"""The maximum loading time, in seconds, with which each query reloads captures that have grown."""
PROGRESS_INTERVAL_S: Final = 0.1
_STOPPED_REPLY: Final = {"error": ["stopped"], "kind": "stopped"}


def main() -> NoReturn:
    """Serve requests until stdin ends."""
    SqlWorker(Parent()).serve()


class SqlWorker:
    """Runs queries on one set of captures at a time."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._queries: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._session: SqlSession | None = None
        self._paths: list[Path] = []
        self._loaded_state: list[tuple[str, int]] = []
        """The state of the files when the captures were loaded."""
        self._load_s = 0.0
        self._reported_s = 0.0
        self._turn = 0
        self._stopped_turn = 0
        """The last turn that was stopped."""
        self._may_stop = False
        """Whether a query is running that a signal may interrupt."""

    def serve(self) -> NoReturn:
        """Run queries, one after another."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        self._parent.listen(self._on_message)
        relation_list = [
            {
                "name": relation.name,
                "is_view": relation.is_view,
                "row": relation.row,
                "example": relation.example,
                "columns": [[column.name, column.type.lower(), column.meaning] for column in relation.columns],
            }
            for relation in relations()
        ]
        self._send_reply({"relations": relation_list, "keywords": KEYWORDS.split()})
        while True:
            request = self._queries.get()
            self._turn = request["turn"]
            try:
                reply = self._reply_to(request)
            except KeyboardInterrupt:
                # The signal arrived when the result was already complete.
                reply = _STOPPED_REPLY
            self._send_reply(reply)

    def _on_message(self, message: bytes) -> None:
        request = from_json(message)
        if "stop" in request:
            self._stopped_turn = request["stop"]
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        else:
            self._queries.put(request)

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        # A signal for an earlier turn must not stop this one.
        if self._may_stop and self._turn <= self._stopped_turn:
            self._may_stop = False
            raise KeyboardInterrupt

    def _reply_to(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._may_stop = True
            # The order matters: a stop from now on raises, and an earlier stop is noticed here.
            if self._turn <= self._stopped_turn:
                return _STOPPED_REPLY
            if "write" in request:
                return {"written": self._write(request, **request["write"])}
            return {"answer": self._run_query(request)}
        except QueryError as error:
            return {"error": error_lines(error), "kind": error.kind}
        except KeyboardInterrupt:
            return _STOPPED_REPLY
        except Exception as error:  # noqa: BLE001 - the screen must show it
            return {"error": [sanitise(str(error), None) or type(error).__name__], "kind": "failed"}
        finally:
            self._may_stop = False

    def _run_query(self, request: dict[str, Any]) -> dict[str, Any]:
        session = self._session_for([Path(path) for path in request["paths"]], anew=request.get("anew") is True)
        began_s = time.monotonic()
        result = session.run_query(request["sql"])
        formatters = [cell_formatter(column, MAX_CELL_CHARS) for column in result.columns]
        rows: list[list[str | None]] = []
        chars_left, is_more = MAX_RESULT_CHARS, False
        for row in result:
            cells = [
                None if cell is None else format_cell(cell).text
                for format_cell, cell in zip(formatters, row, strict=True)
            ]
            chars_left -= sum(len(cell or "") + 4 for cell in cells)
            is_more = len(rows) == MAX_RESULT_ROWS or (chars_left < 0 and bool(rows))
            if is_more:
                break
            rows.append(cells)
        is_number = [column.kind in ("decimal", "float", "integer") for column in result.columns]
        return {
            "columns": [[column.name, right] for column, right in zip(result.columns, is_number, strict=True)],
            "rows": rows,
            "more": is_more,
            "took_s": time.monotonic() - began_s,
            "grown": self._loaded_state != _files_state(self._paths),
        }

    def _write(self, request: dict[str, Any], form: str, place: str | None, most: int) -> dict[str, Any]:
        session = self._session_for([Path(path) for path in request["paths"]], anew=False)
        # Writing counts towards the time limit, as with `mcpproxy query -o`: the rows are not read by a person.
        result = session.run_query(request["sql"], counts_reader=True)
        if not result.columns:
            raise QueryError("empty", "the statement has no rows to write")
        if form == "csv":
            lines = csv_lines(result.columns, result)
        else:
            lines = (line + "\n" for line in json_lines(result.columns, result))
        header_lines = int(form == "csv")
        if place is None:
            text, count, is_cut = _lines_that_fit(lines, most)
            return {"rows": count - header_lines, "text": text, "is_cut": is_cut}
        with new_file(Path(place)) as path, path.open("w", encoding="utf-8", newline="") as file:
            count = 0
            for count, line in enumerate(lines, 1):  # noqa: B007 - the last number is the count
                file.write(line)
        return {"rows": count - header_lines, "text": "", "is_cut": False}

    def _session_for(self, paths: list[Path], *, anew: bool) -> SqlSession:
        """Returns a session with the captures; reloads captures that have grown if that is quick or requested."""
        if self._session is not None and paths == self._paths:
            is_due = anew or self._load_s <= MAX_QUICK_LOAD_S
            if not is_due or self._loaded_state == _files_state(paths):
                return self._session
        if self._session is not None:
            self._session.close()
        self._paths, self._session = paths, None
        files_state, began_s = _files_state(paths), time.monotonic()
        session = SqlSession(paths, Limits(), hear=self._send_note, progress=self._send_progress)
        try:
            for _ in session.run_query("select 1"):
                pass
        except BaseException:
            session.close()
            raise
        self._session, self._loaded_state, self._load_s = session, files_state, time.monotonic() - began_s
        return session

    def _send_note(self, text: str) -> None:
        self._send_reply({"note": sanitise(text, None)})

    def _send_progress(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= PROGRESS_INTERVAL_S:
            self._reported_s = now_s
            self._send_reply({"progress": [done, total]})

    def _send_reply(self, message: dict[str, Any]) -> None:
        # A message split by a signal would be invalid.
        may_stop, self._may_stop = self._may_stop, False
        self._parent.send(orjson.dumps({"turn": self._turn, **message}))
        self._may_stop = may_stop


def _lines_that_fit(lines: Iterable[str], bytes_left: int) -> tuple[str, int, bool]:
    """Returns the lines that fit into a number of bytes, how many they are, and whether there are more."""
    fitting_lines: list[str] = []
    for line in lines:
        bytes_left -= len(line.encode())
        if bytes_left < 0:
            return "".join(fitting_lines), len(fitting_lines), True
        fitting_lines.append(line)
    return "".join(fitting_lines), len(fitting_lines), False


def _files_state(paths: list[Path]) -> list[tuple[str, int]]:
    """The paths and sizes of the captures; the sizes change when a capture grows."""
    files = [file for path in paths for file in segments(path)]
    return [(str(file), file.stat().st_size) for file in files if file.exists()]
