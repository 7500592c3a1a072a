"""The cache of the SQL commands: `mcpproxy cache clear` deletes nothing else, and a damaged file changes no answer."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from analysis.store.open import sources
from analysis.store.sandbox.parent import Answer, Limits
from analysis.store.sandbox.protocol import QueryError
from mcpproxy.report import units
from mcpproxy.sql.session import SqlSession
from tests.analysis.store.test_cache_integration import spoil_block, spoil_rows, written
from tests.bench.check import repeated
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import mcpproxy

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"


def test_it_clears_the_cache_and_nothing_else(tmp_path: Path) -> None:
    capture, home = tmp_path / "long.mcpcap", tmp_path / "home"
    frames = repeated(DEMO, 2000, capture)
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


def test_it_does_one_thing(tmp_path: Path) -> None:
    for arguments in ([], ["empty"], ["clear", "all"]):
        done = mcpproxy("cache", *arguments, HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, b""), arguments


# ---- files that a bad disk has damaged

EVERY_ROW = "select * from frames order by seq"


CALLS = 1000
"""The rows of so many take several messages of the process that answers."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("original") / "a.mcpcap", calls=CALLS)


@pytest.fixture
def capture(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture with a cache of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    return Path(shutil.copy(original, tmp_path / "a.mcpcap"))


def file_of(capture: Path, *, findings: bool = False) -> Path:
    (one,) = sources([capture], findings=findings).readable
    assert one.database is not None
    return one.database


@pytest.mark.parametrize(
    "arguments", [("query", "from latency"), ("query", "-o", "out.json", EVERY_ROW), ("stats",), ("stats", "--json")]
)
def test_a_damaged_file_changes_no_answer(capture: Path, arguments: tuple[str, ...]) -> None:
    def said() -> "subprocess.CompletedProcess[bytes]":
        return mcpproxy(*arguments, *(["--findings"] if arguments[0] == "stats" else []), capture, cwd=capture.parent)

    before = said()
    assert (before.returncode, before.stderr) == (0, b"")
    output = capture.parent / "out.json"
    was_written = output.read_bytes() if output.exists() else b""
    output.unlink(missing_ok=True)
    file = file_of(capture, findings=arguments[0] == "stats")
    spoil_rows(file, "exchanges" if "frames" not in arguments[-1] else "frames")
    damaged = file.read_bytes()
    after = said()
    assert (after.returncode, after.stdout, after.stderr) == (0, before.stdout, b"")
    assert (output.read_bytes() if output.exists() else b"") == was_written
    assert file.read_bytes() != damaged


@pytest.mark.parametrize("form", ["parquet", "csv", "duckdb"])
def test_a_damaged_file_changes_no_export(capture: Path, tmp_path: Path, form: str) -> None:
    whole = mcpproxy("export", "--format", form, "--force", "out", capture, cwd=tmp_path)
    spoil_rows(file_of(capture))
    done = mcpproxy("export", "--format", form, "--force", "out", capture, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, whole.stdout, b"")


def test_damage_that_comes_to_light_between_two_questions(capture: Path) -> None:
    said: list[str] = []
    with SqlSession([capture], Limits(), hear=said.append) as session:
        assert list(session.ask("select 1")) == [(1,)]
        spoil_rows(file_of(capture))
        assert len(list(session.ask(EVERY_ROW))) == 2 * CALLS
    assert said == []


LONG = 10_000
"""Calls whose rows cannot all be read before the first is there."""


def fails_amid_the_rows(file: Path) -> bool:
    """Whether the frames of a file can be read, and then not to their end."""
    begun = False
    with suppress(duckdb.Error), duckdb.connect() as connection:
        connection.execute(f"attach '{file}' as made (read_only)")
        found = connection.execute("from made.frames")
        while found.fetchmany(2048):
            begun = True
        return False
    return begun


@pytest.mark.dear("the rows are more than a query reads before it answers, and several blocks are tried")
def test_damage_that_comes_to_light_amid_the_rows_is_told_and_gone(capture: Path, tmp_path: Path) -> None:
    """Rows that are printed cannot be taken back."""
    long = written(tmp_path / "long.mcpcap", 1, calls=LONG)
    found = sources([long]).readable
    file = found[0].database
    assert file is not None

    def failed(answer: Answer) -> tuple[bool, str]:
        begun = False
        try:
            for _ in answer:
                begun = True
        except QueryError as error:
            return begun, str(error)
        return begun, ""

    number, told = 0, (False, "")
    while not told[1] and spoil_block(file, number):
        number += 7
        # Most blocks are read before the first row is there, and which ones is a matter of threads.
        if fails_amid_the_rows(file):
            with SqlSession([long], Limits()) as session:
                told = failed(session.ask("from frames"))
    assert told == (True, "a damaged cache file was deleted; run the query again")
    assert not file.exists()
    with SqlSession([long], Limits()) as session:
        assert len(list(session.ask("from frames"))) == 2 * LONG
    assert file.exists()
