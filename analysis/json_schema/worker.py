"""The child that judges schemas: `Worker` is our end of it, `main` is what runs there.

Whoever wrote the schema must gain nothing by it. The child starts with no environment, and once it is ready it can open
no file and no socket, whatever a `$ref` names. Its questions are answered one by one; the kernel ends it when one has
taken 100 ms of the processor, so that a machine that is busy with something else changes no answer, or when it takes
too much memory. Its stdin ends with us, and then it ends too.

A child that dies is started again for the next question, but not for ever: after many deaths, all is unknown.
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
"""Time of the processor for one question."""
PATIENCE_S: Final = 10.0
"""Time on the clock for one, after which the child is given up; its start may be among it."""
DEATHS: Final = 50
"""Children that may die; one more for every thousand answers."""
MEMORY: Final = 512 << 20
"""Bytes that it may take beside what it needs to run."""
MOST: Final = 4 << 20
"""Bytes of a question."""

_BOOT: Final = "import sys; sys.path[:] = sys.argv[1:]; from analysis.json_schema.worker import main; main()"
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which some interpreters do not start."""


class Answer(NamedTuple):
    """What the child says."""

    spent_us: int
    """Time of the processor that it took."""
    fits: bool | None
    """None where it cannot be told."""
    pointer: str
    """Where it does not fit."""
    text: str


class Worker:
    """Our end. One for a process, whichever threads ask."""

    def __init__(self) -> None:
        """No child yet."""
        self.deaths = 0
        """Children that died of a question."""
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._answered = 0

    def ask(self, draft: str, schema: bytes, value: bytes) -> Answer | None:
        """Whether a value fits a schema, or with none whether the schema is one; None where the child did not say."""
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
            # Ctrl-C on a terminal is for us; the child ends with its stdin.
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
            ValueError: it said what makes no sense.
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
        return  # that of the process that we were forked from
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


# ---- in the child


def main() -> NoReturn:
    """Answer what comes on stdin until that ends."""
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
    """No new descriptor, no byte into a file, no endless memory."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 0}
    taken = _address_space()
    if taken is not None:
        limits[resource.RLIMIT_AS] = taken + MEMORY
    for which, wanted in limits.items():
        most = resource.getrlimit(which)[1]
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(which, (wanted, wanted))


def _address_space() -> int | None:
    """Bytes of address space that we take; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return None
