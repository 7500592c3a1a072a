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
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import orjson

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

_BOOT: Final = "import sys; sys.path[:] = sys.argv[1:]; from analysis.json_schema.worker import main; main()"
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables that some interpreters need to start."""


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
        if self._child is None or self._child.owner != os.getpid():
            self._child = _Child()
        head = f"{draft} {len(schema)} {len(value)}\n".encode()
        spent, fits, pointer, text = self._child.ask(head + schema + value)
        self._answered += 1
        return Answer(int(spent), fits if isinstance(fits, bool) else None, str(pointer), str(text))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.owner == os.getpid():
            child.close()


class _Child:
    """A process, and the pipes to it."""

    def __init__(self) -> None:
        places = [str(Path(__file__).parents[2]), *(os.path.abspath(place) for place in sys.path if place)]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, *dict.fromkeys(places)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"MALLOC_ARENA_MAX": "2"},
            # Ctrl-C on a terminal is for the parent; the child ends with its stdin.
            process_group=0,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self.owner, self.pid = os.getpid(), process.pid
        self._questions, self._answers = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._questions, False)
        self._room, self._word = select.poll(), select.poll()
        self._room.register(self._questions, select.POLLOUT)
        self._word.register(self._answers, select.POLLIN)
        self.close = weakref.finalize(self, _end, process, self.owner)

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
        heard = b""
        while not heard.endswith(b"\n"):
            piece = os.read(self._answers, 1 << 16) if self._word.poll(PATIENCE_S * 1000) else b""
            if not piece or len(heard) > MOST:
                raise BrokenPipeError
            heard += piece
        return orjson.loads(heard)


def _end(process: "subprocess.Popen[bytes]", owner: int) -> None:
    if owner != os.getpid():
        return  # it belongs to the process that we were forked from
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


# ---- in the child


def main() -> NoReturn:
    """Answer questions from stdin until it ends."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    from analysis.json_schema.validator import Judge

    judge = Judge()
    _lock_up()
    while head := questions.readline():
        draft, schema, value = head.split()
        asked = questions.read(int(schema)), questions.read(int(value))
        signal.setitimer(signal.ITIMER_PROF, BUDGET_S)
        told = judge.answer(draft.decode(), *asked)
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(answers, orjson.dumps([int((BUDGET_S - left) * 1e6), *told]) + b"\n")
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
