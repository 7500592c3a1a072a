"""The cache of the SQL commands: `mcpproxy cache clear` deletes nothing else, and a damaged file changes no result."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from analysis.store.open import sources
from analysis.store.sandbox.parent import Limits
from mcpproxy.sql.session import SqlSession
from mcpproxy.wording import units
from tests.analysis.store.test_cache_integration import spoil_block, spoil_rows, written
from tests.bench.check import repeated
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"


def test_it_clears_the_cache_and_nothing_else(tmp_path: Path) -> None:
    capture, home = tmp_path / "long.mcpcap", tmp_path / "home"
    frames = repeated(DEMO, 600, capture)
    before = capture.read_bytes()
    sql = ("query", "select count(*) as n from frames", str(capture), "--json")
    answer = mcpproxy(*sql, HOME=str(home)).stdout
    (kept,) = home.rglob("*.duckdb")
    size = kept.stat().st_size
    done = mcpproxy("cache", "clear", HOME=str(home))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"1 file, {units.size(size)} deleted in {kept.parent}\n"
    assert list(home.rglob("*.duckdb")) == []
    assert capture.read_bytes() == before
    assert mcpproxy("cache", "clear", HOME=str(home)).stdout.startswith(b"0 files, 0 B deleted")
    assert mcpproxy(*sql, HOME=str(home)).stdout == answer == b'{"n":%d}\n' % frames


def test_it_clears_what_screens_have_understood(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / ".cache/mcpproxy/summaries"
    folder.mkdir(parents=True)
    names = ("a.meaning", "b.findings", "a.json", "a.tally")
    for name in names:
        (folder / name).write_bytes(b"x" * 1000)
    done = mcpproxy("cache", "clear", HOME=str(home))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[1:] == [f"2 files, {units.size(2000)} deleted in {folder}"]
    assert sorted(file.name for file in folder.iterdir()) == ["a.json", "a.tally"]
    (folder / "c.meaning").mkdir()
    done = mcpproxy("cache", "clear", HOME=str(home))
    assert (done.returncode, done.stderr) == (2, f"mcpproxy: cannot delete 1 file in {folder}\n".encode())


def test_it_does_one_thing(tmp_path: Path) -> None:
    for arguments in ([], ["empty"], ["clear", "all"]):
        done = mcpproxy("cache", *arguments, HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, b""), arguments


# ---- files damaged on disk

EVERY_ROW = "select * from frames order by seq"


CALLS = 500
"""The rows of this many calls take several messages of the process that runs the query."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("original") / "a.mcpcap", calls=CALLS)


@pytest.fixture
def capture(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture with its own cache."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    return Path(shutil.copy(original, tmp_path / "a.mcpcap"))


def file_of(capture: Path, *, findings: bool = False) -> Path:
    (one,) = sources([capture], findings=findings).readable
    assert one.database is not None
    return one.database


QUESTIONS = [
    ["query", "from latency"],
    ["query", "-o", "out.json", "--force", EVERY_ROW],
    ["stats", "--findings"],
    ["export", "--format", "parquet", "--force", "out"],
]
MORE = [
    ["stats", "--findings", "--json"],
    *[["export", "--format", form, "--force", "out"] for form in ("csv", "duckdb")],
]
"""Other commands that read the same cache."""


@pytest.mark.costly("four commands run with a file that is whole, and load the capture anew with one that is not")
@pytest.mark.parametrize("questions", [QUESTIONS, pytest.param(MORE, marks=pytest.mark.soak)])
def test_a_damaged_file_changes_no_answer(capture: Path, tmp_path: Path, questions: list[list[str]]) -> None:
    def said(arguments: list[str]) -> tuple[int, bytes, bytes, bytes]:
        done = mcpproxy(*arguments, capture, cwd=tmp_path)
        output = tmp_path / "out.json"
        written = output.read_bytes() if output.exists() else b""
        output.unlink(missing_ok=True)
        return done.returncode, done.stdout, written, done.stderr

    file = file_of(capture, findings=True)
    before = {tuple(arguments): said(arguments) for arguments in questions}
    whole, damaged = file.read_bytes(), {}
    for table in ("frames", "exchanges"):
        spoil_rows(file, table)
        damaged[table] = file.read_bytes()
        file.write_bytes(whole)
    for arguments in questions:
        table = "frames" if EVERY_ROW in arguments or "export" in arguments else "exchanges"
        for other in file.parent.glob("*.duckdb"):
            other.unlink()
        file.write_bytes(damaged[table])
        code, *answer, complaint = said(arguments)
        assert (code, complaint) == (0, b""), arguments
        assert (code, *answer, complaint) == before[tuple(arguments)], arguments
        assert damaged[table] not in [one.read_bytes() for one in file.parent.glob("*.duckdb")], arguments
        assert list(file.parent.glob("*.duckdb")), arguments


@pytest.mark.costly("a sandbox starts three times, not forked")
def test_damage_that_comes_to_light_between_two_questions(capture: Path) -> None:
    said: list[str] = []
    with SqlSession([capture], Limits(), hear=said.append) as session:
        assert list(session.run_query("select 1")) == [(1,)]
        spoil_rows(file_of(capture))
        assert len(list(session.run_query(EVERY_ROW))) == 2 * CALLS
    assert said == []


LONG = 10_000
"""So many calls that their rows cannot all be read before the first one is printed."""


def fails_amid_the_rows(file: Path) -> bool:
    """Returns whether reading the frames of a file begins well and then fails."""
    begun = False
    with suppress(duckdb.Error), duckdb.connect() as connection:
        connection.execute(f"attach '{file}' as made (read_only)")
        found = connection.execute("from made.frames")
        while found.fetchmany(2048):
            begun = True
        return False
    return begun


@pytest.mark.costly("the rows are more than a query reads before it answers, and several blocks are tried")
def test_damage_that_comes_to_light_amid_the_rows_is_told_and_gone(capture: Path, tmp_path: Path) -> None:
    """Rows that have been printed cannot be taken back."""
    long = written(tmp_path / "long.mcpcap", 1, calls=LONG)
    found = sources([long]).readable
    file = found[0].database
    assert file is not None

    def asked(sql: str) -> "subprocess.CompletedProcess[bytes]":
        return mcpproxy("query", sql, long, "--json")

    number, told = 0, (False, b"")
    while not told[1] and spoil_block(file, number):
        number += 7
        # Most blocks are read before the first row is printed; which ones depends on the timing of threads.
        if fails_amid_the_rows(file):
            done = asked("from frames")
            told = bool(done.stdout), done.stderr
    assert told == (True, b"mcpproxy: a damaged cache file was deleted; run the query again\n")
    assert not file.exists()
    done = asked("select seq from frames")
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 2 * LONG, b"")
    assert file.exists()
