"""The sandbox: what SQL cannot do, the resources that it may use, and that its answers are DuckDB's.

Each attack is tried with all protection in place, and again with only the kernel's limits or only DuckDB's settings,
as each must suffice without the other. What counts is not the refusal but the effect: nothing below the test's own
directories has changed.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from decimal import Decimal
from hashlib import sha256
from math import inf, isnan
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import child_process
from analysis.store import cache
from analysis.store.columns import RENAMED_COLUMNS
from analysis.store.open import Source, sources
from analysis.store.sandbox import parent
from analysis.store.sandbox.parent import Limits, Sandbox
from analysis.store.sandbox.protocol import Column, QueryError
from tests.bench.check import repeated
from tests.harness import DEADLINE_S, is_alive, wait_until

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
MARK = "no-foreign-eye-may-see-this"


class Ground:
    """A capture, its cache and some other files next to them, all of which must stay as they are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.capture = root / "demo.mcpcap"
        repeated(DEMO, 200, self.capture)
        self.found: list[Source] = sources([self.capture]).readable
        self.near = root / "near"
        self.near.mkdir()
        (self.near / "secret.txt").write_text(MARK)
        (self.near / "secret.csv").write_text(f"a,b\n{MARK},2\n")
        (self.near / "secret.json").write_text(f'{{"a": "{MARK}"}}\n')
        with duckdb.connect(str(self.near / "other.duckdb")) as connection:
            connection.execute(f"create table secret as select '{MARK}' as a")
            connection.execute(f"copy secret to '{self.near / 'secret.parquet'}'")
        (self.near / "link.csv").symlink_to(self.near / "secret.csv")

    @property
    def database(self) -> Path:
        path = self.found[0].database
        assert path is not None
        return path

    def state(self) -> dict[str, str]:
        """Everything below the test's directories, including directories and links."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            for name in [*folders, *names]:
                path = Path(folder, name)
                if path.is_symlink():
                    found[str(path)] = f"to {path.readlink()}"
                elif path.is_dir():
                    found[str(path)] = "folder"
                elif not path.name.endswith(".lock"):
                    found[str(path)] = sha256(path.read_bytes()).hexdigest()
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A ground with its own cache, home and working directories."""
    root = tmp_path_factory.mktemp("ground")
    with pytest.MonkeyPatch.context() as changed:
        for name in ("home", "cache", "here", "tmp"):
            (root / name).mkdir()
        changed.setenv("HOME", str(root / "home"))
        changed.setenv("XDG_CACHE_HOME", str(root / "cache"))
        changed.setenv("TMPDIR", str(root / "tmp"))
        changed.setenv("JAIL_SECRET", MARK)
        changed.chdir(root / "here")
        changed.setattr(cache, "MIN_CAPTURE_BYTES", 0)
        yield Ground(root)


@pytest.fixture(scope="module")
def kept(ground: Ground) -> Iterator[list[Sandbox]]:
    """One sandbox for many tests, recreated if it has died."""
    sandboxes: list[Sandbox] = []
    yield sandboxes
    for one in sandboxes:
        one.close()


@pytest.fixture
def sandbox(ground: Ground, kept: list[Sandbox]) -> Sandbox:
    if not kept or not kept[-1].is_alive:
        kept.append(Sandbox(ground.found, limits=Limits(timeout_s=DEADLINE_S)))
    return kept[-1]


def rows(sandbox: Sandbox, sql: str) -> list[tuple[Any, ...]]:
    return list(sandbox.run_query(sql))


def kind_of(sandbox: Sandbox, sql: str) -> str:
    """The kind of error with which a statement fails."""
    with pytest.raises(QueryError) as caught:
        rows(sandbox, sql)
    return caught.value.kind


# ---- attacks

WRITES = [
    "copy (select 1) to '{new}'",
    "copy (select 1) to '{new}' (format csv)",
    "copy (select 1) to '{new}' (format json)",
    "copy (select 1) to '{new}' (format parquet)",
    "copy (select 1 as a, 2 as b) to '{new}.d' (format parquet, partition_by (a))",
    "copy (select 1) to '{database}' (use_tmp_file false)",
    "copy (select 1) to '{database}' (format csv, use_tmp_file false, overwrite true)",
    "copy (select 1) to '{capture}' (use_tmp_file false)",
    "copy (select 1) to '{near}/secret.csv' (use_tmp_file false)",
    "copy (select 1) to '{near}/link.csv' (use_tmp_file false)",
    "copy (select 1) to 'here.csv'",
    "copy (select 1) to '~/home.csv'",
    "copy (select 1) to '/dev/stdout'",
    "copy (select 1) to '/dev/stderr'",
    "copy (select 1) to '/proc/self/fd/1'",
    "copy frames to '{new}'",
    "copy frames from '{near}/secret.csv'",
    "with w as (copy (select 1) to '{new}') select * from w",
    "with w as (insert into frames select * from frames returning *) select * from w",
    "with w as (delete from frames returning *) select * from w",
    "explain analyze copy (select 1) to '{new}'",
    "prepare p as copy (select 1) to '{new}'; execute p",
    "create macro m() as table (copy (select 1) to '{new}'); from m()",
    "insert into frames select * from frames",
    "update captures set server = 'x'",
    "delete from captures",
    "truncate captures",
    "export database '{new}'",
    "export database '{near}'",
    "import database '{near}'",
    "checkpoint; vacuum; copy (select 1) to '{new}'",
    "set temp_directory = '{new}'",
    "pragma temp_directory = '{new}'",
    "set secret_directory = '{new}'",
    "set extension_directory = '{new}'",
    "set home_directory = '{new}'",
    "set log_query_path = '{new}'",
    "set profiling_output = '{new}'; pragma enable_profiling; select 1",
    "pragma enable_profiling = 'json'",
    "pragma enable_logging",
    "call enable_logging(storage = 'file', storage_path = '{new}')",
    "create secret s (type s3, key_id 'x', secret 'y'); copy (select 1) to '{new}'",
    "create persistent secret s (type http, bearer_token 'x')",
]

DATABASES = [
    "attach '{near}/other.duckdb' as o",
    "attach '{near}/other.duckdb' as o (read_only)",
    "attach '{new}' as o",
    "attach '{database}' as o",
    "attach '{database}' as o (read_write)",
    "attach ':memory:' as o; copy from database o to o2",
    "attach 'https://example.com/x.duckdb' as o",
    "attach '{near}/secret.csv' as o (type sqlite)",
    "attach 'host=127.0.0.1' as o (type postgres)",
    "attach or replace '{database}' as memory",
    "use nothing_of_that_name; attach '{new}' as o",
    "create database o",
    "attach ':memory:'",
    "attach ':memory:' as o",
    "select 1; attach if not exists ':memory:' as o; select 2",
    "connect 'x'",
    "connect '{near}/other.duckdb'",
]

READS = [
    "from read_text('{near}/secret.txt')",
    "from read_blob('{near}/secret.txt')",
    "from read_csv('{near}/secret.csv')",
    "from read_csv('{near}/link.csv')",
    "from read_csv_auto('{near}/*.csv')",
    "from sniff_csv('{near}/secret.csv')",
    "from read_json('{near}/secret.json')",
    "from read_json_objects('{near}/secret.json')",
    "from read_ndjson('{near}/secret.json')",
    "from read_parquet('{near}/secret.parquet')",
    "from parquet_scan('{near}/secret.parquet')",
    "from parquet_metadata('{near}/secret.parquet')",
    "from parquet_schema('{near}/secret.parquet')",
    "from parquet_file_metadata('{near}/secret.parquet')",
    "from parquet_kv_metadata('{near}/secret.parquet')",
    "from duckdb_extensions()",
    "from glob('{near}/*')",
    "from glob('/etc/*')",
    "from '{near}/secret.csv'",
    "from '{near}/secret.parquet'",
    "from '{near}/secret.json'",
    'from "{near}/secret.csv"',
    "from '/etc/passwd'",
    "from read_text('/proc/self/environ')",
    "from read_text('/proc/self/maps')",
    "from read_text('/dev/stdin')",
    "from read_text('{capture}')",
    "from read_blob('{database}')",
    "from read_text('../near/secret.txt')",
    "from read_text('~/.profile')",
    "from read_duckdb('{near}/other.duckdb')",
    "create view v as from read_text('{near}/secret.txt'); from v",
    "create macro m(f) as table from read_text(f); from m('{near}/secret.txt')",
    "from query('from read_text(''{near}/secret.txt'')')",
    "from query_table('{near}/secret.csv')",
    "set variable f = '{near}/secret.txt'; from read_text(getvariable('f'))",
    "prepare p as from read_text($1); execute p('{near}/secret.txt')",
    "explain analyze from read_text('{near}/secret.txt')",
    "describe from read_csv('{near}/secret.csv')",
    "summarize from read_csv('{near}/secret.csv')",
    "pivot (from read_csv('{near}/secret.csv')) on a",
    "select getenv('JAIL_SECRET')",
    "select getenv('HOME')",
    "set file_search_path = '{near}'; from 'secret.csv'",
]

NETWORK = [
    "from read_text('https://example.com/')",
    "from read_csv('http://127.0.0.1:1/x.csv')",
    "from read_parquet('s3://bucket/x.parquet')",
    "from 'https://example.com/x.parquet'",
    "from 'hf://datasets/x/y.parquet'",
    "from '\\\\\\\\127.0.0.1\\\\share\\\\x.csv'",
    "copy (select 1) to 'http://127.0.0.1:1/x'",
    "select http_get('http://127.0.0.1:1/')",
    "create secret s (type http, bearer_token 'x'); from 'https://example.com/x.csv'",
]

CODE = [
    "install httpfs",
    "install httpfs from community",
    "install '{near}/other.duckdb'",
    "force install httpfs from 'http://127.0.0.1:1/'",
    "load httpfs",
    "load '{near}/other.duckdb'",
    "load 'x.duckdb_extension'",
    "update extensions",
    "select '1.1.1.1'::inet",
    "from read_xlsx('{near}/x.xlsx')",
    "pragma create_fts_index('frames', 'seq', 'method')",
    "from sqlite_scan('{near}/x', 'y')",
    "from postgres_scan('', '', '')",
    "from start_ui()",
    "call start_ui()",
    "from MARKED",
    "from ground",
    "from jail",
    "from sys",
    "from connection",
    "from python_map_function()",
    "from pandas_scan(1)",
    "from arrow_scan(1, 2, 3)",
]

SETTINGS = [
    "set enable_external_access = true",
    "set global enable_external_access = true",
    "set session enable_external_access = true",
    "reset enable_external_access",
    "set disabled_filesystems = ''",
    "reset disabled_filesystems",
    "set lock_configuration = false",
    "reset lock_configuration",
    "pragma lock_configuration = false",
    "set allowed_directories = ['/']",
    "set allowed_paths = ['/etc/passwd']",
    "set autoload_known_extensions = true",
    "set autoinstall_known_extensions = true",
    "set allow_unsigned_extensions = true",
    "set allow_community_extensions = true",
    "set allow_persistent_secrets = true",
    "set custom_extension_repository = 'http://127.0.0.1:1/'",
    "set python_enable_replacements = true",
    "set python_scan_all_frames = true",
    "set memory_limit = '100GB'",
    "pragma memory_limit = '100GB'",
    "set threads = 64",
    "set max_execution_time = 0",
    "set http_proxy = 'http://127.0.0.1:1/'",
    "set access_mode = 'read_write'",
    "call pragma_force_checkpoint('x')",
]

ATTACKS = [*WRITES, *DATABASES, *READS, *NETWORK, *CODE, *SETTINGS]


def aimed(attack: str, ground: Ground) -> str:
    return attack.format(
        new=ground.root / "here/new", near=ground.near, capture=ground.capture, database=ground.database
    )


def test_an_attack_is_refused_and_changes_nothing(ground: Ground, sandbox: Sandbox) -> None:
    before, pid = ground.state(), sandbox.pid
    for attack in ATTACKS:
        with pytest.raises(QueryError) as caught:
            rows(sandbox, aimed(attack, ground))
        assert caught.value.kind not in ("died", "jail", "timeout"), attack
        assert MARK not in str(caught.value), attack
        assert ground.state() == before, attack
        # The sandbox still answers.
        assert rows(sandbox, "select count(*) > 0 from frames") == [(True,)], attack
    assert sandbox.pid == pid


def test_there_are_more_attacks_than_were_known_when_the_recipe_was_found() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) > 2 * 76


HARMLESS = [
    "from duckdb_settings()",
    "from duckdb_secrets()",
    "from duckdb_databases()",
    "from duckdb_logs",
    "from duckdb_temporary_files()",
    "from pragma_database_size()",
    "from duckdb_variables()",
    "select current_setting('home_directory'), current_setting('temp_directory')",
    "select current_database(), current_schema(), current_user, version()",
    "from which_secret('s3://x', 's3')",
    "create temp table t1 as select 1 as a; from t1",
    "create macro twice(x) as x * 2; select twice(4)",
]


def test_what_is_not_refused_shows_nothing_of_the_surroundings(ground: Ground, sandbox: Sandbox) -> None:
    before = ground.state()
    for harmless in HARMLESS:
        assert MARK not in repr(rows(sandbox, harmless)), harmless
        assert ground.state() == before, harmless


def test_to_detach_a_capture_is_to_lose_it_for_this_session_only(ground: Ground) -> None:
    before = ground.state()
    with Sandbox(ground.found) as own:
        attached = "select database_name from duckdb_databases() where not internal and path is not null"
        for (name,) in rows(own, attached):
            rows(own, f'detach "{name}"')
            for again in ("", " (read_only)", " (read_write)"):
                assert kind_of(own, f"attach '{ground.database}' as c2{again}") == "permission"
    with Sandbox(ground.found) as other:
        assert rows(other, "select count(*) > 0 from frames") == [(True,)]
    assert ground.state() == before


@pytest.mark.parametrize("broken", ["_lock", "_limit"])
def test_settings_and_kernel_hold_without_each_other(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """No file is written, read or loaded with one protection missing; the kernel's alone lets folders be created."""
    without = f"import analysis.store.sandbox.child as c; c.{broken} = lambda *_, **__: None; c.main()"
    monkeypatch.setattr(child_process, "_BOOT_CODE", f"import sys; sys.path[:] = sys.argv[2:]; {without}")
    before = ground.state()
    with Sandbox(ground.found, limits=Limits(timeout_s=DEADLINE_S)) as own:
        for attack in [*WRITES, *DATABASES, *READS, *CODE]:
            try:
                answer = repr(rows(own, aimed(attack, ground)))
            except QueryError as error:
                answer = str(error)
            assert MARK not in answer, attack
            after = ground.state()
            made = (
                {path for path in after.keys() - before.keys() if after[path] == "folder"} if broken == "_lock" else ()
            )
            for path in sorted(made, reverse=True):
                Path(path).rmdir()
                del after[path]
            assert after == before, attack
            assert own.is_alive, attack


def test_what_has_no_cache_is_as_safe(ground: Ground) -> None:
    """Small and growing captures are rows in the child's own memory, which only this session can change."""
    before = ground.state()
    (source,) = ground.found
    with Sandbox([source._replace(database=None)], limits=Limits(timeout_s=DEADLINE_S)) as own:
        for attack in ATTACKS:
            try:
                answer = repr(rows(own, aimed(attack, ground)))
            except QueryError as error:
                answer = str(error)
            assert MARK not in answer, attack
            assert own.is_alive, attack
        assert ground.state() == before


def test_no_file_is_opened_and_no_socket_made(ground: Ground, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here to look at system calls with")
    log = tmp_path / "calls"
    with Sandbox(ground.found, limits=Limits(timeout_s=DEADLINE_S)) as own:
        looking = [strace, "-f", "-p", str(own.pid), "-e", "trace=file,network,process", "-o", str(log)]
        with subprocess.Popen(looking, stderr=subprocess.PIPE) as watcher:
            assert watcher.stderr is not None
            told = watcher.stderr.readline()
            if b"attached" not in told:
                watcher.wait()
                pytest.skip(f"strace may not look here: {told.decode().strip()}")
            for attack in ATTACKS:
                with pytest.raises(QueryError):
                    rows(own, aimed(attack, ground))
            own.close()
    calls = log.read_text()
    done = re.findall(r"^\d+ +(\w+)\((.*)\) += [0-9]+", calls, re.MULTILINE)
    # Allowed are checks whether a file exists, and the child's own threads.
    allowed = {"stat", "lstat", "newfstatat", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getcwd"}
    assert [call for call in done if call[0] not in allowed and "CLONE_THREAD" not in call[1]] == []
    assert "exited with" in calls or "killed by" in calls


def test_the_child_inherits_nothing(ground: Ground, sandbox: Sandbox) -> None:
    process = Path(f"/proc/{sandbox.pid}")
    if not process.is_dir():
        pytest.skip("there is no /proc here to look at a process with")
    assert MARK.encode() not in (process / "environ").read_bytes()
    assert b"HOME=" not in (process / "environ").read_bytes()
    assert (process / "cwd").readlink() == Path("/")
    opened = {str(fd.readlink()) for fd in (process / "fd").iterdir()}
    files = {path for path in opened if path.startswith("/") and not path.startswith("/dev/null")}
    assert files == {str(ground.database)}


# ---- limits


RUNAWAYS = [
    "select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 7",
    "with recursive r(i) as (select 1 union all select i + 1 from r) select count(*) from r",
    "select sum(a.seq) from frames a, frames b, frames c, frames d, frames e, frames f",
    "from range(1000000000000)",
]


def test_endless_sql_is_stopped_in_time_and_the_next_is_answered(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may delay the interruption, which does not matter here.
    monkeypatch.setattr(parent, "GRACE_S", DEADLINE_S)
    with Sandbox(ground.found, limits=Limits(timeout_s=0.2)) as own:
        pid = own.pid
        for runaway in RUNAWAYS:
            with pytest.raises(QueryError, match=r"stopped after 0\.2 s") as caught:
                for _ in own.run_query(runaway, counts_reader=True):
                    pass
            assert caught.value.kind == "timeout", runaway
        monkeypatch.setattr(own, "_limits", Limits(timeout_s=DEADLINE_S))
        assert rows(own, "select 1") == [(1,)]
        assert own.pid == pid


def test_sql_that_does_not_listen_is_killed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "GRACE_S", 0.1)
    with Sandbox(ground.found, limits=Limits(memory=4 << 30, timeout_s=0.1)) as own:
        # DuckDB checks for interruptions between rows, and this is one row.
        assert kind_of(own, "select length(repeat('x', 1500000000))") == "timeout"
        assert not own.is_alive
        assert kind_of(own, "select 1") != "timeout"


HUNGRY = [
    "select length(repeat('x', 3000000000))",
    "select list(i) from range(200000000) t(i)",
    "select count(*) from (select distinct i, md5(i::varchar) from range(100000000) t(i))",
    "select string_agg(md5(i::varchar)) from range(100000000) t(i)",
    "create temp table big as select i, md5(i::varchar) from range(100000000) t(i)",
]


@pytest.mark.parametrize(
    ("hungry", "by_resident"),
    [
        pytest.param(
            *(hungry, by_resident), marks=() if (number, by_resident) in ((0, False), (1, True)) else pytest.mark.soak
        )
        for number, hungry in enumerate(HUNGRY)
        for by_resident in (False, True)
    ],
)
def test_sql_that_takes_too_much_memory_is_stopped(ground: Ground, hungry: str, by_resident: bool) -> None:
    before = ground.state()
    with Sandbox(ground.found, limits=Limits(memory=256 << 20), by_resident=by_resident) as own:
        with pytest.raises(QueryError, match="more than 256 MiB of memory") as caught:
            rows(own, hungry)
        assert caught.value.kind == "memory"
    assert ground.state() == before


def test_a_row_that_no_message_holds_is_an_error(sandbox: Sandbox) -> None:
    assert kind_of(sandbox, "select repeat('x', 70000000)") == "row size"
    assert rows(sandbox, "select length(a) from (select repeat('x', 60000000) as a)") == [(60000000,)]


@pytest.mark.parametrize("count", [12_000, pytest.param(40_000, marks=pytest.mark.soak)])
def test_a_large_result_takes_little_memory_on_either_side(ground: Ground, count: int) -> None:
    each = 2_000
    with Sandbox(ground.found) as own:
        before = _resident(own.pid)
        tracemalloc.start()
        try:
            got = sum(len(str(text)) for (text,) in own.run_query(f"select repeat('x', {each}) from range({count})"))
            ours = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert got == count * each
        assert ours < 16 << 20
        assert _resident(own.pid) - before < 64 << 20


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


class Clock:
    """Replaces the module `time`, with a clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_time_in_which_nobody_takes_rows_is_not_counted(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in (parent, child_process):
        monkeypatch.setattr(module, "time", clock)
    with Sandbox(ground.found, limits=Limits(timeout_s=DEADLINE_S)) as own:
        # More than fits into a pipe, so that the child waits, too.
        answer = iter(own.run_query("select i, repeat('x', 1000) from range(500) t(i)"))
        first = next(answer)
        clock.ahead_s += 2 * DEADLINE_S
        assert (first[0], sum(1 for _ in answer)) == (0, 499)


def test_time_in_which_a_program_takes_rows_is_counted_where_it_says_so(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (parent, child_process):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(parent, "GRACE_S", DEADLINE_S)
    with Sandbox(ground.found, limits=Limits(timeout_s=DEADLINE_S)) as own:
        answer = iter(own.run_query("select i, repeat('x', 1000) from range(5000) t(i)", counts_reader=True))
        next(answer)
        clock.ahead_s += 2 * DEADLINE_S
        with pytest.raises(QueryError, match=f"stopped after {DEADLINE_S:g} s"):
            list(answer)
        assert list(own.run_query("select 1")) == [(1,)]


def test_closing_the_answer_stops_the_query(sandbox: Sandbox) -> None:
    answer = sandbox.run_query("from range(1000000000000)")
    assert next(iter(answer)) == (0,)
    pid = sandbox.pid
    other = sandbox.run_query("from range(10000, 20000)")
    # The rest of the first answer is discarded, and takes no rows of the second.
    assert sum(1 for _ in answer) < 10_000
    assert list(other) == [(number,) for number in range(10_000, 20_000)]
    assert (sandbox.pid, sandbox.is_alive) == (pid, True)


RUNAWAY_PARENT = """
import sys
from analysis.store.sandbox.parent import Sandbox
from analysis.store.open import Source
from pathlib import Path
own = Sandbox([Source(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))])
print(own.pid, flush=True)
list(own.ask("select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 7"))
"""


@pytest.mark.parametrize(
    "by",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_the_child_dies_with_its_parent(ground: Ground, by: signal.Signals) -> None:
    (source,) = ground.found
    argv = [sys.executable, "-c", RUNAWAY_PARENT, str(source.path), source.id, str(source.database)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(by)
        parent.wait()
        wait_until(lambda: not is_alive(pid), "the child to end")


def test_a_capture_that_is_gone_is_told_and_the_others_are_asked(ground: Ground, tmp_path: Path) -> None:
    gone = Source(tmp_path / "gone.mcpcap", "x", None)
    with Sandbox([gone, *ground.found]) as own:
        ((path, why),) = own.refused
        assert path == gone.path
        assert "gone.mcpcap" in why
        assert rows(own, "select count(*) from captures") == [(1,)]


def test_a_sandbox_that_cannot_be_set_up_says_why(monkeypatch: pytest.MonkeyPatch, ground: Ground) -> None:
    broken = "import analysis.store.sandbox.child as c; c._lock = lambda _: 1 / 0; c.main()"
    monkeypatch.setattr(child_process, "_BOOT_CODE", f"import sys; sys.path[:] = sys.argv[2:]; {broken}")
    with pytest.raises(QueryError, match="division by zero"):
        Sandbox(ground.found)


# ---- answers


VALUES: list[tuple[str, str, object]] = [
    ("null", '"NULL"', None),
    ("true", "BOOLEAN", True),
    ("(-5)::tinyint", "TINYINT", -5),
    ("18446744073709551615::ubigint", "UBIGINT", 18446744073709551615),
    ("170141183460469231731687303715884105727::hugeint", "HUGEINT", 2**127 - 1),
    ("340282366920938463463374607431768211455::uhugeint", "UHUGEINT", 2**128 - 1),
    ("'123456789012345678901234567890123456789012'::bignum", "BIGNUM", Decimal(int("1234567890" * 4 + "12"))),
    ("1.50::decimal(10,2)", "DECIMAL(10,2)", Decimal("1.50")),
    ("0.1::double", "DOUBLE", 0.1),
    ("'inf'::double", "DOUBLE", inf),
    ("'-inf'::float", "FLOAT", -inf),
    ("''", "VARCHAR", ""),
    ("'é\u0000\U0001f600'", "VARCHAR", "é\0\U0001f600"),
    ("'\\x00\\xFF'::blob", "BLOB", b"\0\xff"),
    ("''::blob", "BLOB", b""),
    ("'{\"a\": [1]}'::json", "JSON", '{"a": [1]}'),
    ("date '2026-11-21'", "DATE", "2026-11-21"),
    ("date '0044-03-15 (BC)'", "DATE", "0044-03-15 (BC)"),
    ("time '10:20:30.5'", "TIME", "10:20:30.5"),
    ("make_timestamp_ns(1795000000123456789)", "TIMESTAMP_NS", "2026-11-18 11:06:40.123456789"),
    ("timestamp '2026-11-21 10:20:30'", "TIMESTAMP", "2026-11-21 10:20:30"),
    ("timestamptz '2026-11-21 10:20:30+02'", "TIMESTAMP WITH TIME ZONE", "2026-11-21 08:20:30+00"),
    ("'2026-11-21 10:20:30.5+02'::timestamptz_ns", "TIMESTAMPTZ_NS", "2026-11-21 08:20:30.5+00"),
    ("'infinity'::timestamp", "TIMESTAMP", "infinity"),
    ("interval '2 days 3 hours'", "INTERVAL", "2 days 03:00:00"),
    ("[1, null]", "INTEGER[]", "[1,null]"),
    ("{'a': 'x', 'b': [1.5::double]}", "STRUCT(a VARCHAR, b DOUBLE[])", '{"a":"x","b":[1.5]}'),
    ("map {'k': 1}", "MAP(VARCHAR, INTEGER)", '{"k":1}'),
    ("union_value(n := 2)", "UNION(n INTEGER)", '{"n":2}'),
    ("'{\"a\":1}'::json::variant", "VARIANT", '{"a":1}'),
    ("'a'::enum('a', 'b')", "ENUM('a', 'b')", "a"),
    ("'a6c1f1a0-0000-4000-8000-000000000000'::uuid", "UUID", "a6c1f1a0-0000-4000-8000-000000000000"),
    ("'101'::bit", "BIT", "101"),
]


def test_values_keep_type_and_all_digits(sandbox: Sandbox) -> None:
    for expression, type_, value in VALUES:
        answer = sandbox.run_query(f"select {expression} as a, 1 as b")
        assert answer.columns == [Column("a", type_), Column("b", "INTEGER")], expression
        assert [(type(row[0]), *row) for row in answer] == [(type(value), value, 1)], expression


def test_nan_is_told_from_null(sandbox: Sandbox) -> None:
    ((nan, null),) = rows(sandbox, "select 'nan'::double, null::double")
    assert isnan(nan)
    assert null is None


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8"), max_size=20))))
def test_rows_come_in_order_and_whole(
    sandbox_factory: Callable[[], Sandbox], given_rows: list[tuple[int, str]]
) -> None:
    values = ", ".join(
        f"({at}, '{number}'::bigint, decode('{_hex(text)}'::blob))" for at, (number, text) in enumerate(given_rows)
    )
    sql = f"select b, c from (values {values}) t(a, b, c)" if values else "select 1, 'x' where false"
    assert rows(sandbox_factory(), sql) == given_rows


def _hex(text: str) -> str:
    return "".join(f"\\x{byte:02X}" for byte in text.encode())


@pytest.fixture(scope="module")
def sandbox_factory(ground: Ground) -> Iterator[Callable[[], Sandbox]]:
    with Sandbox(ground.found) as own:
        yield lambda: own


def test_every_row_arrives_once(sandbox: Sandbox) -> None:
    for count in (0, 1, 2, 2047, 2048, 2049, 100_000):
        assert rows(sandbox, f"from range({count})") == [(number,) for number in range(count)]


STATEMENTS: list[tuple[str, list[tuple[Any, ...]] | None]] = [
    ("select 1; select 2;", [(2,)]),
    ("select 1 -- a comment;", [(1,)]),
    ("select now() is not null, date '2026-01-01' -- a comment; \n ;; /* more */ ;", [(True, "2026-01-01")]),
    ("-- first\nselect ';' as a, date '2026-01-01' as b; -- é", [(";", "2026-01-01")]),
    ("with t as (select date '2026-01-01' as d) select d, d from t", [("2026-01-01", "2026-01-01")]),
    ("select d from (values (date '2026-01-02'), (date '2026-01-01')) t(d) order by d", None),
    ("from (select date '2026-01-01') limit 1;", [("2026-01-01",)]),
    ("pivot (select 1 as a, date '2026-01-01' as d) on a using max(d)", [("2026-01-01",)]),
    ("values (date '2026-01-01')", [("2026-01-01",)]),
    ("create temp table w1 as select 1 as a; insert into w1 values (2); select sum(a) from w1", [(3,)]),
]


def test_statements_of_every_form(sandbox: Sandbox) -> None:
    for sql, answer in STATEMENTS:
        assert rows(sandbox, sql) == (answer or [("2026-01-01",), ("2026-01-02",)]), sql


def test_statements_that_are_no_select_answer_too(sandbox: Sandbox) -> None:
    for sql in ("explain select 1", "describe frames", "show tables", "summarize captures", "pragma version"):
        answer = sandbox.run_query(sql)
        assert answer.columns, sql
        assert list(answer), sql


def test_a_statement_that_writes_runs_once(sandbox: Sandbox) -> None:
    rows(sandbox, "create or replace temp table once as select 0 as a where false")
    returned = rows(
        sandbox, "with w as (insert into once values (1) returning a, date '2026-01-01' as d) select * from w"
    )
    assert len(returned) == 1
    assert rows(sandbox, "select count(*) from once") == [(1,)]


WRONG: list[tuple[str, str, tuple[str, ...]]] = [
    ("selec 1", "parser", ()),
    ("", "empty", ()),
    (" -- nothing\n ;", "empty", ()),
    ("from latenzy", "catalog", ("latency",)),
    ("from exchangs", "catalog", ("exchanges",)),
    ("select latenzy_ms from exchanges", "binder", ("latency_ms",)),
    ("select e.latenzy_ms from exchanges e", "binder", ("latency_ms",)),
    ("select zzzzqqqq from frames", "binder", ()),
    ("select latenzy_ms from frames", "binder", ()),
    ("select f.latenzy_ms from frames f join exchanges e using (capture)", "binder", ()),
    ("select frames.latenzy_ms from frames, exchanges", "binder", ()),
    ("select exchanges.latenzy_ms from frames, exchanges", "binder", ("latency_ms",)),
    ("select x.latenzy_ms from (select latency_ms from exchanges) x", "binder", ("latency_ms",)),
    ("select x.latenzy_ms from (select 1 as b) x", "binder", ()),
    ("select cast('x' as integer)", "conversion", ()),
    ("select error('boom')", "invalid input", ()),
    ("select 1; select 2 from nowhere_at_all", "catalog", ()),
    ("select $1", "invalid input", ()),
]


def test_errors_have_a_kind_and_the_nearest_names(sandbox: Sandbox) -> None:
    for sql, kind, nearest in WRONG:
        with pytest.raises(QueryError) as caught:
            rows(sandbox, sql)
        assert caught.value.kind == kind, sql
        assert caught.value.nearest[: len(nearest)] == nearest, sql
        assert bool(caught.value.nearest) == bool(nearest), sql
        assert rows(sandbox, "select 1") == [(1,)], sql


FORMER = [
    ("select name from captures", "name", "captures", "server"),
    ("select c.NAME from captures as c", "name", "captures", "server"),
    ('select "C"."name" from captures "C", exchanges', "name", "captures", "server"),
    ("select * from captures join stderr using (name)", "name", "captures", "server"),
    ("select * exclude (name) from captures", "name", "captures", "server"),
    ("create table own as select host from captures", "host", "captures", "client_program"),
    ("pivot (from captures) on host", "host", "captures", "client_program"),
    ("select count(*) from sessions where server = 'x'", "server", "sessions", "server_name"),
    ("select sessions.server from sessions join captures using (capture)", "server", "sessions", "server_name"),
    ("select client, count(*) from sessions group by all", "client", "sessions", "client_name"),
    ("select seq from frames order by waited_ns", "waited_ns", "frames", "stall_ns"),
    ("select frames.waited_ns from captures join frames using (capture)", "waited_ns", "frames", "stall_ns"),
    ("select median(answer_ms) from calls", "answer_ms", "calls", "latency_ms"),
    ("from unanswered select waited_ms", "waited_ms", "unanswered", "open_ms"),
]
NEVER = [
    "select name from stderr",
    "select host from sessions",
    "select server from exchanges",
    "select e.waited_ns from exchanges e join frames f using (capture)",
    "select exchanges.waited_ns from exchanges, frames",
    "select name from stderr where line = 'captures' -- captures",
    "select nosuch from captures",
]


def test_a_former_name_is_told_with_the_present_one(sandbox: Sandbox) -> None:
    assert {(table, old): new for _, old, table, new in FORMER} == RENAMED_COLUMNS
    for sql, old, table, new in FORMER:
        with pytest.raises(QueryError) as caught:
            rows(sandbox, sql)
        told = f'cannot run the query: no column "{old}" was found; in {table} it is now called "{new}"'
        assert (str(caught.value), caught.value.kind, caught.value.nearest) == (told, "binder", ()), sql
    for sql in NEVER:
        with pytest.raises(QueryError, match="Binder Error"):
            rows(sandbox, sql)


def test_an_error_shows_the_place_in_what_was_typed(sandbox: Sandbox) -> None:
    with pytest.raises(QueryError, match=r"LINE 1: select nosuch, time from frames\n {15}\^"):
        rows(sandbox, "select nosuch, time from frames")


def test_an_error_in_the_middle_of_an_answer_is_raised_there(sandbox: Sandbox) -> None:
    answer = iter(
        sandbox.run_query("select case when i = 50000 then error('boom') else i::varchar end from range(100000) t(i)")
    )
    with pytest.raises(QueryError, match="boom"):
        for _ in answer:
            pass
    assert rows(sandbox, "select 1") == [(1,)]


# ---- a compromised child

LIES = {
    "a length beyond all bounds": "w(b'\\xff\\xff\\xff\\xff')",
    "no JSON": "w(b'\\0\\0\\0\\4nope')",
    "JSON that is no object": "say(b'[1]')",
    "an object of no use": "say(b'{\"x\":1}')",
    "columns that are none": "say(b'{\"columns\":7}')",
    "columns of columns": "say(b'{\"columns\":[[1,2,3]]}')",
    "rows that are none": "columns(); say(b'{\"rows\":7}')",
    "a row that is none": "columns(); say(b'{\"rows\":[7]}')",
    "a value of another type": 'columns(); say(b\'{"rows":[["x"]]}\')',
    "base64 that is none": 'say(b\'{"columns":[["a","BLOB"]]}\'); say(b\'{"rows":[["!"]]}\')',
    "a number for a text": 'say(b\'{"columns":[["a","VARCHAR"]]}\'); say(b\'{"rows":[["x"],[1]]}\')',
    "rows of many lengths": "columns(); say(b'{\"rows\":[[1],[1,2]]}')",
    "too many values": "columns(); say(b'{\"rows\":[[1,2]]}')",
    "too few values": "columns(); say(b'{\"rows\":[[]]}')",
    "an error without words": "say(b'{\"error\":7}')",
}
LIAR = """
import os, sys
def w(b): os.write(1, b)
def say(b): w(len(b).to_bytes(4, "big") + b)
def columns(): say(b'{"columns":[["a","BIGINT"]]}')
say(b'{"ready":[]}')
while os.read(0, 4):
    if b'"sql"' in os.read(0, 1 << 16): break
%s
os.read(0, 1)
"""


def test_a_child_that_lies_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    for lie, code in LIES.items():
        monkeypatch.setattr(child_process, "_BOOT_CODE", LIAR % code)
        with Sandbox([]) as own:
            with pytest.raises(QueryError) as caught:
                rows(own, "select 1")
            assert caught.value.kind == "jail", lie
            assert not own.is_alive, lie


STOPPED = """
import os, signal
os.write(1, b'\\0\\0\\0\\x0c{"ready":[]}')
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_child_that_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_BOOT_CODE", STOPPED)
    monkeypatch.setattr(parent, "GRACE_S", 0.1)
    with Sandbox([], limits=Limits(timeout_s=0.1)) as own:
        with pytest.raises(QueryError, match=r"stopped after 0\.1 s") as caught:
            own.run_query("select '" + "x" * (1 << 20) + "'")
        assert caught.value.kind == "timeout"
        assert not own.is_alive


def test_a_child_that_dies_is_told_of(sandbox: Sandbox) -> None:
    os.kill(sandbox.pid, signal.SIGSEGV)
    with pytest.raises(QueryError, match="has ended") as caught:
        rows(sandbox, "select 1")
    assert caught.value.kind == "died"
    assert not sandbox.is_alive
