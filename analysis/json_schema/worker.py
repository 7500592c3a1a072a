"""The parent's end of the child process that judges schemas (`judge.py`), which starts without an environment.

A question that the child cannot answer, because it takes too long or crashes the library, is unknown. A child that dies
for another reason costs only time: its question is asked once more, in a new child. After many deaths, no more children
are started. That the validator cannot run is an error, and not the answer "unknown".
"""

import signal
import threading
import time
import weakref
from typing import Final, NamedTuple

import orjson

from analysis.child_process import PythonChild

CHILD_MODULE: Final = "analysis.json_schema.judge"
MAX_ANSWER_TIME_S: Final = 10.0
"""The wall-clock time for one question; then the child is abandoned."""
MAX_DEATHS: Final = 50
"""How many children may die; one more may die for every thousand answers."""
MAX_TRIES: Final = 2
"""How often a question is asked."""
MAX_QUESTION_BYTES: Final = 4 << 20
"""The most bytes of a question."""
_CAUSED_BY_QUESTION: Final = frozenset(
    -number for number in (signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL)
)
"""The exit statuses of a child that its question killed: by its limits of time and memory, or by a crash."""


class ValidatorFailure(Exception):
    """Raised if the validator cannot run: its child cannot be started, or others end it again and again."""

    def __init__(self) -> None:
        super().__init__("the validator of JSON Schemas cannot run")


class Answer(NamedTuple):
    """The child's answer."""

    spent_us: int
    """The processor time that the question took."""
    fits: bool | None
    """Whether the value fits or the schema is valid; None if that cannot be decided."""
    pointer: str
    """The place where the value does not fit."""
    text: str


class Worker:
    """The parent's end of the child. All threads of a process share one worker."""

    def __init__(self) -> None:
        """Start without a child."""
        self.deaths = 0
        """How many children could not be started, or died while answering a question."""
        self._lock = threading.Lock()
        self._child: PythonChild | None = None
        self._answered = 0

    def ask(self, dialect: str, schema: bytes, value: bytes) -> Answer | None:
        """Ask whether a value fits, or whether the schema is valid if the value is empty.

        Returns None if it cannot be decided, because the question is too large, takes too long or crashes the child.

        Raises:
            ValidatorFailure: the validator cannot run.
        """
        if len(schema) + len(value) > MAX_QUESTION_BYTES:
            return None
        with self._lock:
            for _ in range(MAX_TRIES):
                if self.deaths > MAX_DEATHS + self._answered // 1000:
                    break
                try:
                    child = self._running_child()
                    answer = _exchange(child, dialect, schema, value)
                except (OSError, ValueError, TypeError):
                    self.deaths += 1
                    if self._end_child() in _CAUSED_BY_QUESTION:
                        return None
                    continue
                self._answered += 1
                return answer
            raise ValidatorFailure

    def close(self) -> None:
        """End the child; the next question starts another."""
        with self._lock:
            self._end_child()

    def _running_child(self) -> PythonChild:
        """Returns the child; if there is none, start it.

        Raises:
            OSError: it cannot be started, or does not answer.
            ValueError: its first answer is malformed.
            TypeError: its first answer is malformed.
        """
        if self._child is None or not self._child.is_own:
            child = PythonChild(CHILD_MODULE, bare=True, longest=MAX_QUESTION_BYTES)
            self._close_child = weakref.finalize(self, child.close)
            try:
                # A child that cannot even answer this would not have been killed by the next question.
                _exchange(child, "2020-12", b"true", b"0")
            except (OSError, ValueError, TypeError):
                self._close_child()
                raise
            self._child = child
        return self._child

    def _end_child(self) -> int | None:
        """End the child; return its exit status, or None if there is no child."""
        child, self._child = self._child, None
        if child is None:
            return None
        self._close_child()
        return child.wait() if child.is_own else None


def _exchange(child: PythonChild, dialect: str, schema: bytes, value: bytes) -> Answer:
    until_s = time.monotonic() + MAX_ANSWER_TIME_S
    child.send(f"{dialect} {len(schema)}\n".encode() + schema + value, until_s)
    spent, fits, pointer, text = orjson.loads(child.receive(until_s))
    return Answer(int(spent), fits if isinstance(fits, bool) else None, str(pointer), str(text))
