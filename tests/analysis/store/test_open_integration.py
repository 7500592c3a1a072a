"""`analysis.open`: captures as a database for notebooks, in each of the three ways to provide their rows."""

import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import pytest

import analysis
from analysis.store import cache
from analysis.store import open as open_module
from analysis.store.open import prepare, sources
from analysis.store.reference import view_texts
from analysis.store.tables import TABLE_NAMES
from captures.errors import NewerFormat, NotACapture
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.store.test_cache_integration import MANY, SMALLEST, recorded

CORPUS = Path(__file__).parents[2] / "corpus/captures"
DEMO = CORPUS / "demo.mcpcap"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MIN_CAPTURE_BYTES", SMALLEST)


def test_importing_the_package_loads_no_database() -> None:
    code = "import sys, analysis, analysis.store; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_star_import_keeps_the_builtin() -> None:
    assert "open" not in analysis.__all__


@pytest.mark.parametrize("given", [DEMO, str(DEMO), [DEMO], (one for one in [str(DEMO), DEMO])], ids=type)
def test_one_capture_is_taken_in_any_shape(given: object) -> None:
    with analysis.open(given) as connection:  # type: ignore[arg-type]
        assert connection.execute("select count(*) from frames").fetchall() == [(53,)]


def test_a_folder_stands_for_all_captures_below_it() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        connection = analysis.open(CORPUS)
    assert any("later version" in str(one.message) for one in told)
    with connection:
        ((captures, damaged),) = connection.execute(
            "select count(*), count(*) filter (damage > 0) from captures"
        ).fetchall()
    assert captures > 20
    assert damaged > 3


def test_a_folder_without_captures_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(NotACapture, match=f"^no captures in {tmp_path}$"):
        analysis.open(tmp_path)


def test_copies_of_several_captures_are_one_warning(tmp_path: Path) -> None:
    for number in range(3):
        one = CaptureWriter(tmp_path / f"{number}.mcpcap", "weather", number)
        one.handshake()
        path = one.close()
        for copy in range(number + 1):
            path.with_name(f"copy_{number}_{copy}.mcpcap").write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="count once") as told, analysis.open(tmp_path) as connection:
        assert connection.execute("select count(*) from captures").fetchall() == [(3,)]
    (line,) = (str(one.message) for one in told)
    assert line.startswith("6 files are copies of others, and count once: ")
    assert line.endswith(" and 5 more")


def test_every_table_and_view_is_there_and_says_what_it_is() -> None:
    with analysis.open(DEMO) as connection:
        for name in (*TABLE_NAMES, *view_texts()):
            connection.execute(f"select * from {name}").fetchall()
        said = """
            select table_name, comment from duckdb_tables() where not internal
            union all select view_name, comment from duckdb_views() where not internal
        """
        assert [name for name, comment in connection.execute(said).fetchall() if not comment] == []


def test_findings_are_filled_when_asked_for() -> None:
    for wanted in (False, True):
        with analysis.open(DEMO, findings=wanted) as connection:
            assert (connection.execute("select count(*) from findings").fetchall() > [(0,)]) is wanted


@pytest.mark.parametrize(
    ("path", "error"),
    [("newer-format.mcpcap", NewerFormat), ("nowhere.mcpcap", NotACapture), ("empty.mcpcap", NotACapture)],
)
def test_nothing_to_open_is_an_error(path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        analysis.open(CORPUS / path)


def test_no_capture_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotACapture):
        analysis.open([])
    with pytest.raises(NotACapture):
        analysis.open(tmp_path)


def test_connection_is_the_owner_s_own(tmp_path: Path) -> None:
    with analysis.open(DEMO) as connection:
        connection.execute(f"copy (from frames) to '{tmp_path / 'frames.parquet'}'")
        connection.execute("create table mine as from latency")


# ---- attached, copied, read


def facts(connection: duckdb.DuckDBPyConnection) -> list[object]:
    texts = (
        "select count(*), count(distinct capture), sum(size), sum(hash(raw)) from frames",
        "select count(*), sum(latency_ms), count(distinct time) from exchanges",
        "select * from captures order by all",
        "select server, method, name, calls, p50_ms from latency order by all",
        "select count(*), count(distinct capture), sum(frame) from findings",
    )
    return [connection.execute(text).fetchall() for text in texts]


def test_rows_are_the_same_on_every_road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [recorded(tmp_path / f"{number}.mcpcap", number, MANY if number < 4 else 5) for number in range(6)]
    told = []
    for cap, most in (("1G", 16), ("1G", 2), ("1G", 0), ("0", 16)):
        monkeypatch.setenv("MCPPROXY_CACHE_SIZE", cap)
        monkeypatch.setattr(open_module, "MAX_ATTACHED_SMALL_FILES", most)
        with duckdb.connect() as connection:
            found = sources(paths, findings=True)
            prepare(connection, found.readable, findings=True)
            attached = connection.execute("select count(*) from duckdb_databases() where readonly").fetchall()
            assert attached == [(min(most, 4) if cap != "0" else 0,)]
            told.append(facts(connection))
    assert told.count(told[0]) == len(told)


def test_connection_needs_no_file_any_more(tmp_path: Path) -> None:
    path, small = recorded(tmp_path / "a.mcpcap"), recorded(tmp_path / "b.mcpcap", 1, 5)
    found = sources([path, small])
    with duckdb.connect() as connection:
        prepare(connection, found.readable)
        connection.execute("set enable_external_access = false")
        connection.execute("set disabled_filesystems = 'LocalFileSystem'")
        connection.execute("set lock_configuration = true")
        assert connection.execute("select count(*) from frames").fetchall() == [(2 * MANY + 10,)]
        assert connection.execute("select sum(calls) from latency").fetchall() == [(MANY + 5,)]


def test_progress_rises_to_the_size_of_what_is_read(tmp_path: Path) -> None:
    paths = [recorded(tmp_path / f"{number}.mcpcap", number, MANY if number < 2 else 5) for number in range(4)]
    told: list[tuple[int, int]] = []
    found = sources(paths, progress=lambda *now: told.append(now))
    with duckdb.connect() as connection:
        prepare(connection, found.readable, progress=lambda *now: told.append(now))
    large, small = (sum(path.stat().st_size for path in some) for some in (paths[:2], paths[2:]))
    first, second = [now for now in told if now[1] == large], [now for now in told if now[1] == small]
    assert first + second == told
    assert first == sorted(first)
    assert second == sorted(second)
    assert (first[-1], second[-1]) == ((large, large), (small, small))
