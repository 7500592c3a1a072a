"""Runs untrusted SQL in a sandboxed child process and returns the rows.

DuckDB can read and write files, load code and fetch from the network, and a statement can be anything. Statements
therefore run in a child process (`child.py`), which loads the captures, locks itself and then answers. This module
controls it from outside: the child starts without an environment and without the parent's open files, in its own
process group; if a query takes too long, the child has to stop it, or is killed.

The child is not trusted: if it is compromised, it can send wrong rows, but can neither fill the parent's memory nor run
anything in the parent. Rows are transferred as they are consumed, a few hundred kilobytes at a time, so both sides need
little memory for a result of any size. The time limit does not include the time for which the consumer uses the rows,
unless the caller requests it, so a query does not time out in a pager. The child ends with the parent, because its
stdin ends.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self

import orjson

from analysis.child_process import PythonChild
from analysis.store.sandbox.protocol import (
    MAX_SANDBOX_MESSAGE_BYTES,
    OVER_MEMORY_STATUS,
    Cells,
    Column,
    QueryError,
    Value,
    decoders,
)

if TYPE_CHECKING:
    from analysis.store.open import Progress, Source

DEFAULT_MEMORY_BYTES: Final = 2 << 30
"""The bytes of memory that the captures and a query may take, in addition to what the process itself needs."""
DEFAULT_TIMEOUT_S: Final = 60.0
"""The time that one query may take, including all its rows."""
STOP_TIMEOUT_S: Final = 1.0
"""The time that a query has to stop when it is interrupted; then its process is killed."""

_LIMITS_BY_SIGNAL: Final[dict[int, str]] = {
    signal.SIGXCPU: "timeout",
    signal.SIGKILL: "memory",
    signal.SIGABRT: "memory",
}
"""The limit that a child has exceeded, by the signal that ended it; the system sends SIGKILL if memory runs out."""


class Limits(NamedTuple):
    """The limits of one query."""

    memory: int = DEFAULT_MEMORY_BYTES
    timeout_s: float = DEFAULT_TIMEOUT_S


class QueryRows:
    """The rows of one statement as they arrive, which can be iterated once."""

    def __init__(self, columns: list[Column], rows: Iterator[tuple[Value, ...]], until_s: float) -> None:
        """Only `Sandbox.run_query` creates these."""
        self.columns = columns
        """The columns; empty if the statement returns no rows."""
        self.until_s = until_s
        """The deadline on the monotonic clock, as it was when the query began."""
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        """The rows.

        Raises:
            QueryError: the statement failed after it had begun to answer.
        """
        return self._rows


class Sandbox:
    """A child process that runs SQL on some captures. Close it, or use it with `with`."""

    def __init__(
        self,
        readable: "Iterable[Source]",
        *,
        findings: bool = False,
        limits: Limits | None = None,
        progress: "Progress | None" = None,
        by_resident: bool = sys.platform == "darwin",
    ) -> None:
        """Start the child, and wait until it has loaded everything and is locked.

        Args:
            readable: the sources of the rows, as returned by `analysis.store.open.sources`.
            findings: whether the table `findings` is filled.
            limits: the limits of each query.
            progress: called with the child's progress in loading.
            by_resident: whether the child watches its resident memory, because the kernel does not limit address space.

        Raises:
            QueryError: the child could not be set up.
        """
        self.refused: list[tuple[Path, str]] = []
        """Captures that can no longer be read, and why."""
        self._limits = limits or Limits()
        self._until_s: float | None = None
        """The deadline of the query, extended by the time for which the consumer uses the rows, unless that counts."""
        self._counts_reader = False
        self._turn = 0
        self._is_busy = False
        self._process = PythonChild("analysis.store.sandbox.child", bare=True, longest=MAX_SANDBOX_MESSAGE_BYTES)
        setup = {
            # Absolute, because the child has another working directory; in hexadecimal digits, because the bytes of a
            # path need not be UTF-8.
            "sources": [
                [_hex_path(source.path), source.id, source.database and _hex_path(source.database)]
                for source in readable
            ],
            "findings": findings,
            "memory": self._limits.memory,
            "timeout_s": self._limits.timeout_s,
            "by_resident": by_resident,
        }
        try:
            self._send(setup)
            self._wait_for_start(progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can answer: a query that had to be killed takes the child with it."""
        return self._process.is_alive

    def run_query(self, sql: str, *, counts_reader: bool = False) -> QueryRows:
        """Run statements, and return the rows of the last one. A query that is still running is stopped first.

        Args:
            sql: the statements.
            counts_reader: whether the time limit includes the time for which the consumer uses the rows, as is right
                for rows that no person reads.

        Raises:
            QueryError: a statement was refused, failed, or exceeded a limit.
        """
        self.stop()
        self._turn += 1
        self._counts_reader = counts_reader
        self._until_s = time.monotonic() + self._limits.timeout_s
        # Before sending: Ctrl-C in between must not leave a query running that this object does not know about.
        self._is_busy = True
        try:
            self._send({"sql": sql})
        except TypeError:
            self._is_busy = False
            raise QueryError("parser", "the statement is not UTF-8") from None
        except TimeoutError:
            self._raise_timeout()
        try:
            columns = [Column(str(name), str(type_)) for name, type_ in self._next_value("columns")]
        except (TypeError, ValueError):
            self._raise_violation()
        return QueryRows(columns, self._rows(decoders(columns)), self._until_s)

    def stop(self) -> None:
        """Stop the query that is running, if any; if it does not stop in time, kill the child."""
        if not self._is_busy:
            return
        self._until_s = time.monotonic() + STOP_TIMEOUT_S
        try:
            self._send({"stop": True})
            while not {"done", "error"} & set(self._receive()):
                pass
        except (QueryError, TimeoutError):
            self.close()
        except BaseException:  # Ctrl-C again: the rest of the child's output would be mistaken for the next answer
            self.close()
            raise
        finally:
            self._is_busy = False

    def close(self) -> None:
        """End the child, even while it is busy."""
        self._process.close()

    # ---- messages

    def _wait_for_start(self, progress: "Progress | None") -> None:
        while "ready" not in (message := self._receive()):
            if "progress" not in message:
                raise self._error(message)
            try:
                done, total = map(int, message["progress"])
            except (TypeError, ValueError):
                self._raise_violation()
            if progress is not None:
                progress(done, total)
        try:
            self.refused = [(Path(os.fsdecode(bytes.fromhex(path))), str(reason)) for path, reason in message["ready"]]
        except (TypeError, ValueError):
            self._raise_violation()

    def _rows(self, converters: "list[Callable[[Cells], Sequence[Value]]]") -> Iterator[tuple[Value, ...]]:
        turn = self._turn
        while self._is_busy and turn == self._turn and (rows := self._next_value("rows")) is not None:
            try:
                cells = [convert(column) for convert, column in zip(converters, zip(*rows, strict=True), strict=True)]
                batch = zip(*cells, strict=True)
            except (TypeError, ValueError, ArithmeticError):
                self._raise_violation()
            paused_s = time.monotonic()
            yield from batch
            if turn == self._turn and self._until_s is not None and not self._counts_reader:
                self._until_s += time.monotonic() - paused_s

    def _next_value(self, member: str) -> Any:
        """Returns the value of the wanted member of the next message, or None at the end of the answer."""
        try:
            message = self._receive()
        except TimeoutError:
            self._raise_timeout()
        except KeyboardInterrupt:
            self.stop()
            raise
        if member in message:
            return message[member]
        self._is_busy = False
        if "done" in message:
            return None
        raise self._error(message)

    def _error(self, message: dict[str, Any]) -> QueryError:
        error = message.get("error")
        if not isinstance(error, dict):
            self._raise_violation()
        nearest = error.get("nearest")
        kind, text = str(error.get("kind")), str(error.get("text"))
        return QueryError(
            kind,
            self._memory_text() if kind == "memory" else text,
            map(str, nearest) if isinstance(nearest, list) else (),
        )

    def _receive(self) -> dict[str, Any]:
        """Receive the next message; if Ctrl-C interrupts this, the part that was read is kept."""
        try:
            message = orjson.loads(self._process.receive(self._until_s))
        except BrokenPipeError:
            self._raise_death()
        except ValueError:
            self._raise_violation()
        if not isinstance(message, dict):
            self._raise_violation()
        return message

    def _send(self, request: dict[str, Any]) -> None:
        self._process.send(orjson.dumps(request), self._until_s)

    def _raise_timeout(self) -> NoReturn:
        self.stop()
        raise QueryError(
            "timeout", f"stopped after {self._limits.timeout_s:g} s, which is the limit of a query"
        ) from None

    def _raise_death(self) -> NoReturn:
        self.close()
        code = self._process.wait()
        kind = "memory" if code == OVER_MEMORY_STATUS else _LIMITS_BY_SIGNAL.get(-code, "died")
        if kind == "memory":
            raise QueryError(kind, self._memory_text())
        if kind == "timeout":
            raise QueryError(kind, f"stopped after {self._limits.timeout_s:g} s of each processor")
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise QueryError(kind, f"the process that answers queries has ended ({ending})")

    def _memory_text(self) -> str:
        return f"stopped: it needs more than {self._limits.memory >> 20:,} MiB of memory"

    def _raise_violation(self) -> NoReturn:
        """End a child that violates the protocol."""
        self.close()
        raise QueryError("jail", "the process that answers queries said what makes no sense, and was ended")


def _hex_path(path: Path) -> str:
    return os.fsencode(os.path.abspath(path)).hex()
