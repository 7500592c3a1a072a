"""`mcpproxy export`: every row arrives, other programs can read the files, and files of others are never lost."""

import csv
import os
import re
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from analysis.store.reference import relations
from analysis.store.tables import TABLE_NAMES
from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.test_durability_integration import needs_namespaces

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests/corpus/captures"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures of two days; tests only read it."""
    place = tmp_path_factory.mktemp("captures")
    for number in range(2):
        one = CaptureWriter(place / f"{number}.mcpcap", "=cmd|' /C calc'!A0", number, OPENED + number * DAY)
        one.handshake()
        one.ask(20, 1, "tools/list")
        one.answer(21, 1, tools=[{"name": "@SUM(1)", "inputSchema": {"type": "object"}}])
        one.call(30, 2, "@SUM(1)")
        one.fail(32, 2, "-1+1")
        one.record(33, "stderr", raw="\tx", size=2)
        one.raw(34, "s2c", b"\xff no message")
        one.close()
    return place


FORMS = ("parquet", "csv", "duckdb")


@pytest.fixture(scope="module")
def whole(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each format, with all rows, including findings; tests only read them."""
    place = tmp_path_factory.mktemp("o'ut")
    for form in FORMS:
        exported(form, place / form, captures, "--findings")
    return place


@pytest.fixture(scope="module")
def without_findings(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folders without findings."""
    place = tmp_path_factory.mktemp("without")
    for form in FORMS:
        exported(form, place / form, captures)
    return place


def exported(form: str, place: Path, captures: Path, *more: str) -> None:
    done = mcpproxy("export", "--format", form, *more, place, captures)
    assert (done.returncode, complaints(done)) == (0, b""), complaints(done)


@pytest.mark.costly("what other tests share is exported here, in three forms")
def test_every_row_arrives(whole: Path) -> None:
    for form in FORMS:
        place = whole / form
        counts = {}
        with duckdb.connect() as connection:
            for table in TABLE_NAMES:
                if form == "duckdb":
                    connection.execute("attach if not exists ? as out (read_only)", [str(place / "captures.duckdb")])
                    source = f"out.{table}"
                elif form == "csv":
                    source = f"read_csv({text(place / f'{table}.csv')}, header = true, all_varchar = true)"
                else:
                    source = f"read_parquet({text(place / table / 'day=*/*.parquet')}, hive_partitioning = true)"
                if form == "duckdb" or list(place.glob(f"{table}*/*/*.parquet")) or (place / f"{table}.csv").exists():
                    (counts[table],) = connection.execute(f"select count(*) from {source}").fetchall()[0]
        findings, http = counts.pop("findings"), counts.pop("http_exchanges", 0) + counts.pop("logins", 0)
        expected = {"captures": 2, "sessions": 2, "frames": 16, "exchanges": 6, "tools": 2, "stderr": 2}
        assert (counts, findings > 0, http) == (expected, True, 0), form


def text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def test_files_are_for_their_owner_alone(without_findings: Path) -> None:
    for form in FORMS:
        place = without_findings / form
        files = [path for path in place.rglob("*") if path.is_file()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}, form
        folders = [place, *(path for path in place.rglob("*") if path.is_dir())]
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}, form
        assert not [path for path in folders if path.name.startswith(".")], form


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_overwritten_unless_asked_for(
    form: str, captures: Path, without_findings: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(without_findings / form, tmp_path / "out"))
    files = sorted(path for path in place.rglob("*") if path.is_file())
    kept = files.pop(0)
    kept.write_text("mine")
    for file in files:
        file.unlink()
    done = mcpproxy("export", "--format", form, place, captures)
    assert (done.returncode, done.stdout) == (73, b"")
    assert b"exists, so nothing was written; --force replaces it" in complaints(done)
    assert [path for path in place.rglob("*") if path.is_file()] == [kept]
    assert kept.read_text() == "mine"
    exported(form, place, captures, "--force")
    assert sorted(path for path in place.rglob("*") if path.is_file()) == [kept, *files]
    assert kept.read_bytes() != b"mine"


def test_no_cell_of_csv_is_a_formula(whole: Path) -> None:
    cells = []
    for file in (whole / "csv").glob("*.csv"):
        with file.open(newline="", encoding="utf-8") as rows:
            cells += [cell for row in csv.reader(rows) for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+\-@\t\r\n]", cell) and not re.fullmatch(r"-?[0-9.e+-]+", cell)]
    assert {"'=cmd|' /C calc'!A0", "'@SUM(1)", "'-1+1", "'\tx"} <= set(cells)
    assert b"\xff no message".hex() in cells


def test_parquet_has_the_columns_of_the_tables_and_no_type_that_is_rare(whole: Path) -> None:
    described = 0
    with duckdb.connect() as connection:
        for relation in relations():
            files = [str(path) for path in (whole / "parquet" / relation.name).rglob("*.parquet")]
            if relation.is_view or not files:
                continue
            found = connection.execute("describe from read_parquet(?, hive_partitioning = false)", [files]).fetchall()
            assert [row[0] for row in found] == [column.name for column in relation.columns]
            assert not {row[1] for row in found} & {"JSON", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "HUGEINT"}
            described += 1
    assert described == 7


def test_without_findings_there_is_no_table_that_looks_clean(without_findings: Path) -> None:
    assert not list(without_findings.glob("*/findings*"))
    with duckdb.connect(str(without_findings / "duckdb/captures.duckdb"), read_only=True) as connection:
        names = {
            name
            for (name,) in connection.execute("select table_name from duckdb_columns() where not internal").fetchall()
        }
        assert connection.execute("select sum(calls) from latency").fetchall() == [(6,)]
    assert names & {"findings", "id_mismatches", "lifecycle_violations", "findings_by_rule"} == set()
    assert {"latency", "frames"} <= names


def test_a_damaged_capture_is_exported_as_far_as_it_goes(tmp_path: Path) -> None:
    done = mcpproxy("export", tmp_path / "out", CORPUS / "damaged.mcpcap", CORPUS / "not-a-capture.mcpcap")
    assert done.returncode == 2
    told = f"{CORPUS / 'damaged.mcpcap'}: 711 B of damage, 4 records lost; the rest was written"
    assert told.encode() in complaints(done)
    assert b"not-a-capture" in complaints(done)
    assert list((tmp_path / "out/frames").rglob("*.parquet"))


def test_only_the_folder_has_to_be_named() -> None:
    done = mcpproxy("export")
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaints(done) == b"mcpproxy: the following arguments are required: OUT; see mcpproxy export --help\n"


def test_a_folder_that_cannot_be_made_is_one_line(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = mcpproxy("export", tmp_path / "file/out", captures)
    assert done.returncode == 73
    assert complaints(done).count(b"\n") == 1
    assert b"Traceback" not in complaints(done)


def test_statements_of_the_page_about_scale_run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole / "parquet", "lake")
    statements = re.findall(
        r"^```sql\n(.*?)^```$", (ROOT / "docs/scale.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    statements = [statement for statement in statements if "_manifests" not in statement]  # `ship` writes the rest
    assert len(statements) == 5
    with duckdb.connect() as connection:
        assert all(connection.execute(statement).fetchall() for statement in statements)
        (days,) = connection.execute("select count(distinct day) from 'compact/*/*.parquet'").fetchall()
    assert days == (2,)


@needs_namespaces
@pytest.mark.parametrize("form", ["parquet", pytest.param("csv", marks=pytest.mark.soak), "duckdb"])
def test_a_full_disk_is_told_in_a_line(form: str, captures: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=8k none "$1" || exit 99; disk=$1; shift; "$@"; code=$?; find $disk; exit $code'
    export = [sys.executable, "-m", "mcpproxy", "export", "--format", form, str(disk / "to/out"), str(captures)]
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", str(disk), *export], capture_output=True)
    if done.returncode == 99:
        pytest.skip("no tmpfs can be mounted here")
    assert (done.returncode, done.stdout.decode()) == (73, f"{disk}\n")
    (line,) = complaints(done).decode().splitlines()
    assert line.startswith(f"mcpproxy: cannot write to {disk / 'to/out'}: ")
    assert line.endswith(": No space left on device; nothing was written")


def test_a_file_in_the_place_of_the_folder_is_told(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = mcpproxy("export", tmp_path / "taken", captures)
    assert (done.returncode, done.stdout) == (73, b"")
    assert complaints(done).startswith(f"mcpproxy: cannot write to {tmp_path / 'taken'}: File exists".encode())


def test_a_folder_in_the_place_of_a_file_is_not_replaced(
    captures: Path, without_findings: Path, tmp_path: Path
) -> None:
    shutil.copytree(without_findings / "csv", tmp_path / "out")
    before = (tmp_path / "out/frames.csv").read_bytes()
    (tmp_path / "out/tools.csv").unlink()
    (tmp_path / "out/stderr.csv").unlink()
    (tmp_path / "out/stderr.csv").mkdir()
    done = mcpproxy("export", "--format", "csv", "--force", "out", captures / "0.mcpcap", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (73, b"")
    assert complaints(done) == b"mcpproxy: out/stderr.csv is a folder, so nothing was written\n"
    assert (tmp_path / "out/frames.csv").read_bytes() == before
    assert not (tmp_path / "out/tools.csv").exists()


def test_where_one_file_cannot_be_put_all_others_go(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "tools").mkdir(parents=True)
    day = datetime.fromtimestamp((OPENED + DAY) // 10**9, UTC)
    taken = out / f"tools/day={day:%Y-%m-%d}"
    taken.write_text("mine")
    done = mcpproxy("export", out, captures)
    assert (done.returncode, done.stdout) == (73, b"")
    assert complaints(done).endswith(b": File exists; nothing was written\n")
    assert sorted(out.rglob("*")) == [out / "tools", taken]


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *[("duckdb", "sqlite:x"), ("parquet", "s3:"), ("csv", "~")],
        *[
            pytest.param(form, name, marks=pytest.mark.soak)
            for form, name in (("duckdb", "~"), ("duckdb", "s3:"), ("duckdb", "md:x"), ("parquet", "~"), ("csv", "s3:"))
        ],
    ],
)
def test_a_folder_has_any_name(form: str, name: str, captures: Path, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", form, f"./{name}", captures / "0.mcpcap", cwd=tmp_path)
    assert (done.returncode, complaints(done)) == (0, b"")
    assert any((tmp_path / name).iterdir())
    assert b"/" not in done.stdout.partition(b"  ")[0]


def test_a_folder_that_duckdb_cannot_name_is_told(captures: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/h\xff")
    for form, name, why in (("parquet", odd, "not UTF-8"), ("duckdb", odd, "not UTF-8"), ("duckdb", "a?b=1", "a ?")):
        done = mcpproxy("export", "--format", form, name, captures, cwd=tmp_path)
        assert done.returncode == 73
        assert complaints(done).startswith(b"mcpproxy: cannot write to "), complaints(done)
        assert why.encode() in complaints(done)
        assert complaints(done).count(b"\n") == 1
    assert mcpproxy("export", "", captures).stderr == b"mcpproxy: the name of the folder to write to is empty\n"


def test_what_a_killed_export_has_left_goes_with_the_next(captures: Path, tmp_path: Path) -> None:
    left, fresh = tmp_path / "out/.mcpproxy-left", tmp_path / "out/.mcpproxy-fresh"
    for one in (left, fresh):
        one.mkdir(parents=True)
        (one / "frames.csv").touch()
    os.utime(left, (0, 0))
    exported("csv", tmp_path / "out", captures)
    assert not left.exists()
    assert fresh.exists()
