"""A terminated command ends as after Ctrl-C: with the exit code of a shell, and without leaving a file behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, wait_until
from tests.mcpproxy.cli.typed import started

DEMO = Path(__file__).parents[2] / "corpus/captures/demo.mcpcap"
ENDLESS = "from range(10000000000)"

ENDING = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]

AT_WORK = """
import sys
import duckdb
from mcpproxy.cli.diagnostics import run_guarded

def count(arguments):
    print("at work", flush=True)
    duckdb.execute("select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 7")

sys.exit(run_guarded(count, [], "count"))
"""


@pytest.mark.parametrize(("number", "code"), ENDING)
def test_a_statement_of_duckdb_is_no_obstacle(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"at work\n"
            process.send_signal(number)
            _, told = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, told) == (code, b"")


@pytest.mark.parametrize(("number", "code"), ENDING)
def test_an_answer_that_is_being_written_goes(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with started("query", ENDLESS, DEMO, "-o", tmp_path / "answer.csv") as process:
        wait_until(lambda: any(one.stat().st_size for one in tmp_path.iterdir()), "rows to be written")
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "code"), [ENDING[0], *[pytest.param(*one, marks=pytest.mark.soak) for one in ENDING[1:]]]
)
def test_a_capture_of_stdin_goes(number: signal.Signals, code: int, tmp_path: Path) -> None:
    place = tmp_path / "here"
    place.mkdir()
    with (
        DEMO.open("rb") as demo,
        subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", "query", ENDLESS, "-"],
            stdin=demo,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(place)},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            assert os.listdir(place) != []
            process.send_signal(number)
            # Its stdout is full, because nothing reads it.
            assert process.wait(DEADLINE_S) == code
        finally:
            process.kill()
    assert os.listdir(place) == []


AMID = """
import os, signal, sys
from mcpproxy.__main__ import main

wakes, woken = os.pipe()
os.set_blocking(woken, False)
put = 0

def wait(event, _):
    global put
    if event == "os.link":
        put += 1
        if put == 2:
            # Unlike a pause, this returns for a signal that came just before it, too.
            os.read(wakes, 1)

signal.set_wakeup_fd(woken)
sys.addaudithook(wait)
sys.exit(main())
"""
"""A command that never gets to move a second file into place."""


AT_THE_FIRST_FILE = """
import os, signal, sys
from mcpproxy.__main__ import main

def end(_, event, called):
    if event == "c_return" and called is os.link:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)

sys.setprofile(end)
sys.exit(main())
"""
"""A command that is terminated as soon as its first file is in place, before it can do anything else."""


def test_an_export_leaves_nothing_however_soon_after_a_file_it_is_told_to_end(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with started("export", "--format", "csv", place, DEMO, code=AT_THE_FIRST_FILE) as process:
        assert process.wait(DEADLINE_S) == 143
    assert not place.exists()


@pytest.mark.parametrize(("number", "code"), ENDING)
def test_an_export_that_is_under_way_goes(number: signal.Signals, code: int, tmp_path: Path) -> None:
    place = tmp_path / "out"
    with started("export", "--format", "csv", place, DEMO, code=AMID) as process:
        wait_until(lambda: any(place.glob("*.csv")), "the first file")
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert not place.exists()
