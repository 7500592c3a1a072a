"""Builds missing cache files in parallel, with one process for each processor.

Loading a capture keeps one core busy, and captures are independent of each other. Workers are separate processes that
read tasks from stdin and answer on stdout, one line of JSON each; they end with the parent, as their stdin ends, or
when they have finished their current task. A worker that dies costs only time: its capture, and all tasks not taken,
are left to the caller.
"""

import json
import os
import selectors
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from analysis.child_process import PythonChild, take_pipes, usable_processors, write_all
from analysis.store import cache
from captures.errors import CaptureError

WORTH: Final = 16 << 20
"""Bytes of captures that justify a second process: starting it takes a third of a second, the time to load 6 MB."""
SHARE: Final = 128_000_000
"""The least memory for DuckDB in each of several processes; with less memory, fewer processes are started."""

_STEP: Final = 1 << 20
"""Bytes of a capture between two reports of progress."""
_LONGEST_LINE: Final = 1 << 20
"""Bytes of a message: a path, or a reason."""


class Task(NamedTuple):
    """A cache file to make."""

    path: Path
    """The capture."""
    id: str
    """The value of the column `capture` in its rows."""
    size: int
    """Its size in bytes."""


class Result(NamedTuple):
    """The result of a task."""

    task: Task
    file: Path | None
    """None if the cache has no room for it, or it cannot be read."""
    refused: str | None
    """Why it cannot be read."""


def duckdb_memory(memory: int, processes: int = 1) -> int:
    """Bytes that DuckDB may hold in each process that makes files.

    Half of the memory, as DuckDB exceeds its limit while it writes, and rows wait in addition.

    Args:
        memory: bytes for all of them.
        processes: how many make files at once.
    """
    return min(cache.MEMORY, memory // 2 // processes)


def processes(tasks: list[Task], memory: int) -> int:
    """How many processes to start: none if this process alone is as quick, or takes all the memory.

    Args:
        tasks: what to make.
        memory: bytes for all of them.
    """
    worth = sum(task.size for task in tasks) // WORTH + 1
    count = min(usable_processors(), len(tasks), worth, memory // 2 // SHARE)
    return count if count > 1 else 0


def fill(
    tasks: Iterable[Task],
    count: int,
    *,
    findings: bool,
    keep: Iterable[Path],
    report: Callable[[int], None],
    memory: int,
) -> Iterator[Result]:
    """Make files with several processes.

    Args:
        tasks: what to make.
        count: how many processes.
        findings: whether to run the checker, too.
        keep: files that are about to be used, and are kept when room is made.
        report: called with the number of bytes read, over all tasks.
        memory: bytes that DuckDB may hold in each process.

    Yields:
        Each result as soon as it is ready; none for a task whose worker died.
    """
    # The largest first, so that none of them is still running when all others are done.
    left = sorted(tasks, key=lambda task: task.size)
    stay = [os.fspath(path) for path in keep]
    done = 0
    with _Crew(count) as crew:
        for worker in crew.workers:
            worker.give(left.pop() if left else None, findings=findings, keep=stay, memory=memory)
        for worker, message in crew.messages():
            if "read" in message:
                worker.read = int(message["read"])
            elif worker.task is not None:
                done, worker.read = done + worker.task.size, 0
                file = None if message["file"] is None else Path(message["file"])
                yield Result(worker.task, file, message["refused"])
                worker.give(left.pop() if left else None, findings=findings, keep=stay, memory=memory)
            report(done + sum(worker.read for worker in crew.workers))


class _Worker:
    """One process."""

    def __init__(self) -> None:
        self.process = PythonChild(__name__)
        self.task: Task | None = None
        """The task in progress."""
        self.read = 0
        """How many bytes of its capture have been read."""

    def give(self, task: Task | None, **how: object) -> None:
        """Assign a task; None if there are no more."""
        self.task = task
        with suppress(OSError):  # it is dead, as its stdout will show
            if task is None:
                self.process.send_end()
            else:
                self.process.send_line({"path": os.path.abspath(task.path), "id": task.id, **how})

    def read_messages(self) -> list[dict[str, Any]] | None:
        """The messages received from it; None if it has ended."""
        lines = self.process.read_lines(_LONGEST_LINE)
        return None if lines is None else [json.loads(line) for line in lines]


class _Crew:
    """Several workers; use it with `with` to be sure that all end."""

    def __init__(self, count: int) -> None:
        self.workers: list[_Worker] = []
        self._count = count

    def __enter__(self) -> Self:
        try:
            for _ in range(self._count):
                self.workers.append(_Worker())
        except OSError:
            pass  # the workers that did start do the work
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.close()

    def messages(self) -> Iterator[tuple[_Worker, dict[str, Any]]]:
        """The messages of the workers, until all have ended."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            while selector.get_map():
                for key, _ in selector.select():
                    messages = key.data.read_messages()
                    if messages is None:
                        key.data.task, key.data.read = None, 0
                        selector.unregister(key.fileobj)
                    for message in messages or ():
                        yield key.data, message


def main() -> None:
    """Run a worker: make the files that stdin names until it ends."""
    # DuckDB takes `python -c` for an interactive prompt: during a slow statement it draws a progress bar on stdout.
    stdin, answers = take_pipes()
    try:
        for line in os.fdopen(stdin, "rb"):
            request = json.loads(line)
            progress = _Progress(answers)
            result, refused = None, None
            try:
                result = cache.store(
                    Path(request["path"]),
                    request["id"],
                    findings=request["findings"],
                    keep=[Path(path) for path in request["keep"]],
                    progress=progress.tell,
                    memory=request["memory"],
                )
            except CaptureError as error:
                refused = str(error)
            _say(answers, file=result and os.fspath(result), refused=refused)
    except BrokenPipeError:
        os._exit(0)  # it is no longer needed


class _Progress:
    """Reports the progress of a worker, once per megabyte."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._next = _STEP

    def tell(self, read: int) -> None:
        if read >= self._next:
            self._next = read + _STEP
            _say(self._answers, read=read)


def _say(answers: int, **message: object) -> None:
    write_all(answers, json.dumps(message).encode() + b"\n")
