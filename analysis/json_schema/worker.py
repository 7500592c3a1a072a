"""The child process that judges schemas: `Worker` is the parent's end, `main` runs in the child.

A malicious schema must gain nothing. The child starts without an environment, and once it is ready it cannot open any
file or socket, whatever a `$ref` names. It answers questions one by one; the kernel ends it when a question has taken
100 ms of processor time, so that a busy machine does not change any answer, or when it takes too much memory. Its stdin
closes when the parent ends, and then it ends, too.

A child that dies is restarted for the next question, but not for ever: after many deaths, every answer is unknown.
"""

import os
import resource
import select
import signal
import threading
import weakref
from typing import Any, Final, NamedTuple, NoReturn

import orjson

from analysis.child_process import PythonChild, take_pipes

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
        self._child: _Child | None = None
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
            self._child = _Child()
        head = f"{draft} {len(schema)} {len(value)}\n".encode()
        spent, fits, pointer, text = self._child.ask(head + schema + value)
        self._answered += 1
        return Answer(int(spent), fits if isinstance(fits, bool) else None, str(pointer), str(text))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()


class _Child:
    """A process, and the pipes to it."""

    def __init__(self) -> None:
        self._process = PythonChild(__name__, bare=True)
        self._questions, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._questions, False)
        self._room, self._word = select.poll(), select.poll()
        self._room.register(self._questions, select.POLLOUT)
        self._word.register(self._answers, select.POLLIN)
        self.close = weakref.finalize(self, self._process.close)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it."""
        return self._process.is_ours

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, question: bytes) -> Any:
        """The answer to one question.

        Raises:
            OSError: it died, or took too long.
            ValueError: its answer is invalid.
        """
        rest = memoryview(question)
        while rest:
            if not self._room.poll(PATIENCE_S * 1000):
                raise TimeoutError
            rest = rest[os.write(self._questions, rest[: 1 << 16]) :]
        answer = b""
        while not answer.endswith(b"\n"):
            piece = os.read(self._answers, 1 << 16) if self._word.poll(PATIENCE_S * 1000) else b""
            if not piece or len(answer) > MOST:
                raise BrokenPipeError
            answer += piece
        return orjson.loads(answer)


# ---- in the child


def main() -> NoReturn:
    """Answer questions from stdin until it ends."""
    stdin, answers = take_pipes()
    questions = os.fdopen(stdin, "rb")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    from analysis.json_schema.validator import Judge

    judge = Judge()
    _lock_up()
    while head := questions.readline():
        draft, schema, value = head.split()
        texts = questions.read(int(schema)), questions.read(int(value))
        signal.setitimer(signal.ITIMER_PROF, BUDGET_S)
        answer = judge.answer(draft.decode(), *texts)
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(answers, orjson.dumps([int((BUDGET_S - left) * 1e6), *answer]) + b"\n")
    os._exit(0)


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
