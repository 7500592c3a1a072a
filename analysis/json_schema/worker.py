"""The child process that judges schemas: `Worker` is the parent's end, `main` runs in the child.

A malicious schema must gain nothing. The child starts without an environment, and once it is ready it cannot open any
file or socket, whatever a `$ref` names. It answers questions one by one; the kernel ends it when a question has taken
100 ms of processor time, so that a busy machine does not change any answer, or when it takes too much memory. Its stdin
closes when the parent ends, and then it ends, too.

A child that dies is restarted for the next question, but not for ever: after many deaths, every answer is unknown.
"""

import resource
import signal
import threading
import time
import weakref
from typing import Final, NamedTuple, NoReturn

import orjson

from analysis.child_process import Parent, PythonChild

BUDGET_S: Final = 0.1
"""Processor time for one question."""
PATIENCE_S: Final = 10.0
"""Wall-clock time for one question, after which the child is abandoned; its start may be included."""
DEATHS: Final = 50
"""How many children may die; one more for every thousand answers."""
MEMORY: Final = 512 << 20
"""Bytes of memory that it may take in addition to what it needs to run."""
MOST: Final = 4 << 20
"""The most bytes of a question."""


class Answer(NamedTuple):
    """The child's answer."""

    spent_us: int
    """The processor time that it took."""
    fits: bool | None
    """None if it cannot be decided."""
    pointer: str
    """Where it does not fit."""
    text: str


class Worker:
    """The parent's end. One per process, shared by all threads."""

    def __init__(self) -> None:
        """Start without a child."""
        self.deaths = 0
        """How many children died while answering a question."""
        self._lock = threading.Lock()
        self._child: PythonChild | None = None
        self._answered = 0

    def ask(self, draft: str, schema: bytes, value: bytes) -> Answer | None:
        """Whether a value fits a schema, or without one, whether the schema is valid; None without an answer."""
        with self._lock:
            if self.deaths > DEATHS + self._answered // 1000:
                return None
            try:
                return self._ask(draft, schema, value)
            except (OSError, ValueError, TypeError):
                self.deaths += 1
                self._end()
                return None

    def close(self) -> None:
        """End the child; the next question starts another."""
        with self._lock:
            self._end()

    def _ask(self, draft: str, schema: bytes, value: bytes) -> Answer | None:
        if len(schema) + len(value) > MOST:
            return None
        if self._child is None or not self._child.is_ours:
            self._child = PythonChild(__name__, bare=True, longest=MOST)
            self._close = weakref.finalize(self, self._child.close)
        until_s = time.monotonic() + PATIENCE_S
        self._child.send(f"{draft} {len(schema)}\n".encode() + schema + value, until_s)
        spent, fits, pointer, text = orjson.loads(self._child.receive(until_s))
        self._answered += 1
        return Answer(int(spent), fits if isinstance(fits, bool) else None, str(pointer), str(text))

    def _end(self) -> None:
        if self._child is not None:
            self._child = None
            self._close()


# ---- in the child


def main() -> NoReturn:
    """Answer questions until stdin ends."""
    parent = Parent()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    from analysis.json_schema.validator import Judge

    judge = Judge()
    _lock_up()
    while True:
        head, _, texts = parent.receive().partition(b"\n")
        draft, size = head.split()
        schema, value = texts[: int(size)], texts[int(size) :]
        signal.setitimer(signal.ITIMER_PROF, BUDGET_S)
        answer = judge.answer(draft.decode(), schema, value)
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        parent.send(orjson.dumps([int((BUDGET_S - left) * 1e6), *answer]))


def _lock_up() -> None:
    """Forbid new descriptors, writes to files, and unlimited memory."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 0}
    taken = _address_space()
    if taken is not None:
        limits[resource.RLIMIT_AS] = taken + MEMORY
    for which, wanted in limits.items():
        most = resource.getrlimit(which)[1]
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(which, (wanted, wanted))


def _address_space() -> int | None:
    """Bytes of address space in use; None if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return None
