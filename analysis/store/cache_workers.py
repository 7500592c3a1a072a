"""Builds missing cache files in parallel, with one process for each processor.

Loading a capture keeps one core busy, and captures are independent of each other. Workers are separate processes. Each
receives one task at a time, and reports its progress and its result. If workers die, only time is lost: the caller has
to load the captures without a result.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from analysis.child_process import Parent, PythonChild, Team, as_json, from_json, usable_processors
from analysis.store import cache
from captures.errors import CaptureError

BYTES_PER_PROCESS: Final = 16 << 20
"""Bytes of captures that justify a second process: starting it takes a third of a second, the time to load 6 MB."""
MIN_MEMORY_PER_PROCESS_BYTES: Final = 128_000_000
"""The least memory for DuckDB in each of several processes; with less memory, fewer processes are started."""

_PROGRESS_BYTES: Final = 1 << 20
"""Bytes of a capture between two reports of progress."""


class Task(NamedTuple):
    """A cache file to create."""

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
    """The file; None if the cache has no room for it, or if the capture cannot be read."""
    refusal: str | None
    """Why the capture cannot be read; None if it can."""


def duckdb_memory(memory: int, processes: int = 1) -> int:
    """The bytes of memory that DuckDB may use in each process that creates files.

    It is half of the memory, because DuckDB exceeds its limit while it writes, and rows that wait need memory as well.

    Args:
        memory: the bytes of memory for all processes together.
        processes: how many processes create files at once.
    """
    return min(cache.MAX_DUCKDB_BYTES, memory // 2 // processes)


def process_count(tasks: list[Task], memory: int) -> int:
    """How many processes to start: none if this process alone is as quick, or needs all the memory.

    Args:
        tasks: the files to create.
        memory: the bytes of memory for all processes together.
    """
    useful_processes = sum(task.size for task in tasks) // BYTES_PER_PROCESS + 1
    count = min(usable_processors(), len(tasks), useful_processes, memory // 2 // MIN_MEMORY_PER_PROCESS_BYTES)
    return count if count > 1 else 0


def create_files(
    tasks: Iterable[Task],
    count: int,
    *,
    findings: bool,
    keep: Iterable[Path],
    report: Callable[[int], None],
    memory: int,
) -> Iterator[Result]:
    """Create files with several processes.

    Args:
        tasks: the files to create.
        count: how many processes to start.
        findings: whether to run the checker, too.
        keep: files that are about to be used, and must not be deleted to make room.
        report: called with the number of bytes read, over all tasks.
        memory: the bytes of memory that DuckDB may use in each process.

    Yields:
        Each result as soon as it is ready; none for a task whose worker died.
    """
    # The largest task comes last and is taken first, so that it does not run on after all others are done.
    waiting_tasks = sorted(tasks, key=lambda task: task.size)
    options = {"findings": findings, "keep": [os.fspath(path) for path in keep], "memory": memory}
    done_bytes = 0
    with Team[_Worker]() as team:
        with suppress(OSError):  # the workers that have started do the work
            for _ in range(count):
                team.add(_Worker())
        for worker in team.children:
            worker.assign(waiting_tasks.pop() if waiting_tasks else None, options)
        while team.has_running_children:
            for worker, messages in team.receive():
                if messages is None:
                    worker.bytes_read = 0
                for message in map(from_json, messages or ()):
                    if "read" in message:
                        worker.bytes_read = int(message["read"])
                    elif worker.task is not None:
                        done_bytes, worker.bytes_read = done_bytes + worker.task.size, 0
                        file = None if message["file"] is None else Path(message["file"])
                        yield Result(worker.task, file, message["refused"])
                        worker.assign(waiting_tasks.pop() if waiting_tasks else None, options)
                    report(done_bytes + sum(worker.bytes_read for worker in team.children))


class _Worker(PythonChild):
    """One worker process."""

    def __init__(self) -> None:
        super().__init__(__name__)
        self.task: Task | None = None
        """The task in progress."""
        self.bytes_read = 0
        """How many bytes of its capture have been read."""

    def assign(self, task: Task | None, options: dict[str, object]) -> None:
        """Assign a task, or None if there are no more."""
        self.task = task
        if task is None:
            self.send_end()
        else:
            self.send(as_json({"path": os.path.abspath(task.path), "id": task.id, **options}))


def main() -> None:
    """Run a worker: create the files that the parent names."""
    # DuckDB takes `python -c` for an interactive prompt: during a slow statement it draws a progress bar on stdout.
    parent = Parent()
    requests: SimpleQueue[bytes] = SimpleQueue()
    parent.listen(requests.put)
    while True:
        request = from_json(requests.get())
        file, refused = None, None
        try:
            file = cache.create_file(
                Path(request["path"]),
                request["id"],
                findings=request["findings"],
                keep=[Path(path) for path in request["keep"]],
                progress=_Progress(parent).update,
                memory=request["memory"],
            )
        except CaptureError as error:
            refused = str(error)
        parent.send(as_json({"file": file and os.fspath(file), "refused": refused}))


class _Progress:
    """Reports the progress of a worker, once per megabyte."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._next = _PROGRESS_BYTES

    def update(self, bytes_read: int) -> None:
        if bytes_read >= self._next:
            self._next = bytes_read + _PROGRESS_BYTES
            self._parent.send(as_json({"read": bytes_read}))
