"""The parent's end of the child process that judges schemas (`judge.py`), which starts without an environment.

A child that dies is restarted for the next question, but not forever: after many deaths, every answer is unknown.
"""

import threading
import time
import weakref
from typing import Final, NamedTuple

import orjson

from analysis.child_process import PythonChild

CHILD_MODULE: Final = "analysis.json_schema.judge"
MAX_ANSWER_TIME_S: Final = 10.0
"""The wall-clock time for one question, including a start of the child if needed; then the child is abandoned."""
MAX_DEATHS: Final = 50
"""How many children may die; one more may die for every thousand answers."""
MAX_QUESTION_BYTES: Final = 4 << 20
"""The most bytes of a question."""


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
        """How many children died while answering a question."""
        self._lock = threading.Lock()
        self._child: PythonChild | None = None
        self._answered = 0

    def ask(self, draft: str, schema: bytes, value: bytes) -> Answer | None:
        """Ask whether a value fits, or whether the schema is valid if the value is empty.

        Returns None if there is no answer.
        """
        with self._lock:
            if self.deaths > MAX_DEATHS + self._answered // 1000:
                return None
            try:
                return self._ask(draft, schema, value)
            except (OSError, ValueError, TypeError):
                self.deaths += 1
                self._end_child()
                return None

    def close(self) -> None:
        """End the child; the next question starts another."""
        with self._lock:
            self._end_child()

    def _ask(self, draft: str, schema: bytes, value: bytes) -> Answer | None:
        if len(schema) + len(value) > MAX_QUESTION_BYTES:
            return None
        if self._child is None or not self._child.is_own:
            self._child = PythonChild(CHILD_MODULE, bare=True, longest=MAX_QUESTION_BYTES)
            self._close_child = weakref.finalize(self, self._child.close)
        until_s = time.monotonic() + MAX_ANSWER_TIME_S
        self._child.send(f"{draft} {len(schema)}\n".encode() + schema + value, until_s)
        spent, fits, pointer, text = orjson.loads(self._child.receive(until_s))
        self._answered += 1
        return Answer(int(spent), fits if isinstance(fits, bool) else None, str(pointer), str(text))

    def _end_child(self) -> None:
        if self._child is not None:
            self._child = None
            self._close_child()
