"""Several processes fill the cache as one would, and the death of one costs only time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pytest

from analysis import child_process
from analysis.store import cache, cache_workers
from analysis.store.cache_workers import Result, Task, create_files, duckdb_memory, process_count
from analysis.store.open import sources
from tests.analysis.store.capture_writer import CaptureWriter
from tests.bench.check import repeated
from tests.harness import ROOT, children, is_alive, killed_at_the_end, wait_until

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
CAPTURES = 3
CALLS = 60
WORTH = 1 << 13
"""The size from which workers are worth it, low enough for captures with few calls."""
MEMORY = 2 << 30


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "MIN_CAPTURE_BYTES", WORTH)
    return tmp_path / "cache"


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    """Different captures that are large enough for the cache."""
    made = []
    for number in range(CAPTURES):
        talk = CaptureWriter(tmp_path / f"{number}.mcpcap", "a", number)
        for id_ in range(CALLS + number):
            talk.call(id_, id_, "dig", depth=id_, why="because " * 10)
            talk.answer(id_ + 0.5, id_, content=[{"type": "text", "text": "dug"}])
        made.append(talk.close())
    return made


def tasks_of(captures: Iterable[Path]) -> list[Task]:
    return [Task(path, f"{number:032x}", path.stat().st_size) for number, path in enumerate(captures)]


def frames_in(file: Path | None) -> int:
    assert file is not None
    with duckdb.connect(str(file), read_only=True) as connection:
        return int(connection.execute("select count(*) from frames").fetchall()[0][0])


def test_each_capture_gets_a_file_with_all_its_rows(captures: list[Path]) -> None:
    told: list[int] = []
    tasks = tasks_of(captures)
    made = list(create_files(tasks, 2, findings=False, keep=[], report=told.append, memory=MEMORY))
    assert {one.task for one in made} == set(tasks)
    for one in made:
        assert frames_in(one.file) == frames_in(cache.create_file(one.task.path, one.task.id))
    assert told[-1] == sum(task.size for task in tasks)
    assert told == sorted(told)


def test_what_is_asked_of_many_captures_goes_this_way(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_workers, "BYTES_PER_PROCESS", WORTH)
    if process_count(tasks_of(captures), MEMORY) < 2:
        pytest.skip("there is one processor")
    alone = sources(captures[:1]).readable
    assert process_count(tasks_of(captures[:1]), MEMORY) == 0
    found = sources(captures)
    assert (found.refused, [one.path for one in found.readable]) == ([], captures)
    assert found.readable[0] == alone[0]
    assert [frames_in(one.database) for one in found.readable] == [2 * (CALLS + number) for number in range(CAPTURES)]


def test_where_memory_is_short_one_process_has_all_of_it() -> None:
    tasks = [
        Task(Path(f"{number}.mcpcap"), f"{number:032x}", 10 * cache_workers.BYTES_PER_PROCESS) for number in range(64)
    ]
    for memory in (64 << 20, 256 << 20, 1 << 30, 8 << 30):
        count = process_count(tasks, memory)
        assert max(1, count) * duckdb_memory(memory, max(1, count)) <= memory // 2
        assert count == 0 or duckdb_memory(memory, count) >= cache_workers.MIN_MEMORY_PER_PROCESS_BYTES
    assert process_count(tasks, 256 << 20) == 0


def test_what_cannot_be_read_is_told_and_holds_nobody_up(captures: list[Path], tmp_path: Path) -> None:
    gone = Task(tmp_path / "gone.mcpcap", "f" * 32, 1 << 20)
    made = {
        one.task: one
        for one in create_files([gone, *tasks_of(captures)], 2, findings=False, keep=[], report=print, memory=MEMORY)
    }
    assert made[gone].file is None
    assert len([one for one in made.values() if one.file is not None]) == CAPTURES


def test_a_worker_that_is_killed_leaves_its_captures_to_others(captures: list[Path]) -> None:
    made: list[Result] = []
    others = children(os.getpid())
    for one in create_files(tasks_of(captures), 2, findings=False, keep=[], report=lambda _read: None, memory=MEMORY):
        made.append(one)
        if len(made) == 1:
            os.kill(next(pid for pid in children(os.getpid()) if pid not in others), signal.SIGKILL)
    # At most the one that it was loading is missing.
    assert len(made) >= CAPTURES - 1


def test_all_is_answered_though_every_worker_dies(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_workers, "BYTES_PER_PROCESS", WORTH)
    monkeypatch.setattr(child_process, "_BOOT_CODE", "import os; os._exit(3)")
    found = sources(captures)
    assert [frames_in(one.database) for one in found.readable] == [2 * (CALLS + number) for number in range(CAPTURES)]


def test_what_a_worker_prints_besides_is_no_answer(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    # DuckDB takes code run by `python -c` for a prompt, and draws a progress bar on stdout during slow statements.
    noise = """
import os, sys
sys.path[:] = sys.argv[2:]
from analysis.store import cache, cache_workers
store = cache.store
def noisy(*given, **named):
    os.write(1, "\\r 53% \u2595\u2588 \u258f".encode())
    print("done")
    return store(*given, **named)
cache.store = noisy
cache_workers.main()
"""
    monkeypatch.setattr(child_process, "_BOOT_CODE", noise)
    made = list(create_files(tasks_of(captures), 2, findings=False, keep=[], report=lambda _read: None, memory=MEMORY))
    assert sorted(frames_in(one.file) for one in made) == [2 * (CALLS + number) for number in range(CAPTURES)]


def test_the_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 20_000, large)
    code = """
import sys
from pathlib import Path
from analysis.store.cache_workers import Task, fill
tasks = [Task(Path(sys.argv[1]), f"{number:032x}", 1 << 30) for number in range(8)]
for made in fill(tasks, 2, findings=False, keep=[], report=lambda read: None, memory=1 << 29):
    pass
"""
    with subprocess.Popen([sys.executable, "-c", code, str(large)], cwd=ROOT) as parent:
        workers = wait_until(lambda: len(found := children(parent.pid)) == 2 and found, "the workers")
        assert isinstance(workers, list)
        with killed_at_the_end(*workers):
            parent.kill()
            parent.wait()
            for worker in workers:
                wait_until(lambda pid=worker: not is_alive(pid), "a worker to end")  # type: ignore[misc]
