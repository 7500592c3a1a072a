"""The cache gives the same answers as the capture, regardless of what happens to its files."""

import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

import analysis
from analysis.cached import DEFAULT_CACHE_BYTES, size_limit
from analysis.store import cache
from analysis.store import open as open_module
from analysis.store.cache_files import directory
from analysis.store.open import Source, Sources, delete_damaged, prepare, sources, use_sources
from analysis.store.tables import TABLE_NAMES
from captures.errors import NewerFormat
from captures.file import CaptureFile
from captures.identity import path_id
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import DEADLINE_S
from tests.mcpproxy.test_durability_integration import needs_namespaces

CORPUS = Path(__file__).parents[2] / "corpus/captures"
MANY = 60
"""The number of calls that make a capture large enough for the cache of these tests."""
SMALLEST = 32 << 10
LARGE = 600
"""The number of calls that make a capture large enough for any cache."""
BLOCKS_AT = 3 * 4096
"""The size in bytes of the headers before the blocks of a DuckDB file."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MCPPROXY_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "MIN_CAPTURE_BYTES", SMALLEST)
    return tmp_path / "cache/mcpproxy/sql"


def written(path: Path, number: int = 0, calls: int = LARGE) -> Path:
    talk = CaptureWriter(path, "a", number)
    for id_ in range(calls):
        talk.call(id_, id_, "dig", depth=id_, why="because " * 10)
        talk.answer(id_ + 0.5, id_, content=[{"type": "text", "text": "dug"}])
    return talk.close()


def recorded(path: Path, number: int = 0, calls: int = MANY) -> Path:
    return written(path, number, calls)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("original") / "a.mcpcap")


@pytest.fixture
def capture(original: Path, tmp_path: Path) -> Path:
    """A capture that is not in any cache and may be changed."""
    return Path(shutil.copy(original, tmp_path / "a.mcpcap"))


@pytest.fixture(scope="module")
def filled(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the original."""
    place = tmp_path_factory.mktemp("filled") / "cache"
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("XDG_CACHE_HOME", str(place))
        changed.setattr(cache, "MIN_CAPTURE_BYTES", SMALLEST)
        sources([original])
    return place


@pytest.fixture
def cached(original: Path, filled: Path, folder: Path) -> Path:
    """A capture that is in the cache of this test and must not be changed."""
    shutil.copytree(filled, folder.parents[1])
    return original


def counts(found: Sources, *, findings: bool = False) -> tuple[int, ...]:
    """The number of rows of frames, exchanges and findings."""
    with duckdb.connect() as connection:
        assert prepare(connection, found.readable, findings=findings) == []
        tables = ("frames", "exchanges", "findings")
        return tuple(connection.execute(f"select count(*) from {table}").fetchall()[0][0] for table in tables)


def only(found: Sources) -> Source:
    assert found.refused == []
    (one,) = found.readable
    return one


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_findings_come_once_however_often_they_are_made(capture: Path) -> None:
    (source,) = sources([capture]).readable
    made = [cache.create_file(capture, source.id, findings=True) for _ in range(2)]
    assert len(set(made)) == 1
    found = Sources([source._replace(database=made[0])], [], [])
    alone = Sources([source], [], [])
    assert counts(found, findings=True) == counts(alone, findings=True)


def test_findings_of_another_time_are_not_there_when_nobody_asks(cached: Path) -> None:
    with_findings = sources([cached], findings=True)
    assert counts(with_findings, findings=True)[2] > 0
    again = sources([cached])
    assert again.readable == with_findings.readable
    assert counts(again)[2] == 0


def test_file_is_made_once_and_is_for_the_user_alone(capture: Path, folder: Path) -> None:
    first = only(sources([capture])).database
    assert first is not None
    made = first.stat()
    assert only(sources([capture])).database == first
    assert (first.stat().st_ino, first.stat().st_mtime_ns >= made.st_mtime_ns) == (made.st_ino, True)
    assert files(folder) == [first]
    assert first.stat().st_mode & 0o777 == 0o600
    assert {place.stat().st_mode & 0o777 for place in (folder, folder.parent)} == {0o700}
    assert counts(sources([capture])) == (2 * MANY, MANY, 0)


def test_answers_are_the_same_with_and_without(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = _everything(sources([cached], findings=True))
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "0")
    without = sources([cached], findings=True)
    assert only(without).database is None
    assert _everything(without) == with_it


def _everything(found: Sources) -> list[str]:
    with duckdb.connect() as connection:
        prepare(connection, found.readable, findings=True)
        tables = ("captures", "sessions", "frames", "exchanges", "tools", "findings", "latency", "unanswered")
        return [str(connection.execute(f"select * from {table} order by all").fetchall()) for table in tables]


def test_findings_are_added_when_they_are_asked_for_and_then_stay(cached: Path, folder: Path) -> None:
    plain = only(sources([cached])).database
    full = only(sources([cached], findings=True)).database
    assert files(folder) == [full]
    assert full != plain
    assert only(sources([cached])).database == full
    assert counts(sources([cached], findings=True), findings=True)[2] > 0


def test_findings_can_be_asked_for_at_once(capture: Path, folder: Path) -> None:
    assert counts(sources([capture], findings=True), findings=True)[2] > 0
    assert len(files(folder)) == 1


def test_small_captures_are_not_worth_a_file(tmp_path: Path, folder: Path) -> None:
    found = sources([recorded(tmp_path / "small.mcpcap", calls=5)])
    assert only(found).database is None
    assert counts(found) == (10, 5, 0)
    assert files(folder) == []


def test_growing_captures_are_read_up_to_their_end(capture: Path, tmp_path: Path, folder: Path) -> None:
    lines = capture.read_bytes().splitlines(keepends=True)
    growing = CaptureFile(tmp_path / "growing.mcpcap")
    try:
        growing.append(b"".join(lines[: MANY + 1]))
        found = sources([Path(growing.path)])
        assert only(found).database is None
        assert counts(found) == (MANY, MANY // 2, 0)
        growing.append(b"".join(lines[MANY + 1 : MANY + 21]))
        assert counts(found) == (MANY + 20, MANY // 2 + 10, 0)
        with duckdb.connect() as connection:
            prepare(connection, found.readable)
            assert connection.execute("select is_live from captures").fetchall() == [(True,)]
    finally:
        growing.close()
    assert files(folder) == []


def test_large_growing_captures_have_one_file_which_the_next_replaces(
    capture: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIN_CAPTURE_BYTES", "MIN_GROWING_CAPTURE_BYTES"):
        monkeypatch.setattr(cache, name, 0)
    lines = capture.read_bytes().splitlines(keepends=True)
    growing = CaptureFile(tmp_path / "growing.mcpcap")
    try:
        growing.append(b"".join(lines[: MANY + 1]))
        first = sources([Path(growing.path)])
        assert counts(first) == (MANY, MANY // 2, 0)
        growing.append(b"".join(lines[MANY + 1 : MANY + 21]))
        assert counts(first) == (MANY, MANY // 2, 0)
        second = sources([Path(growing.path)])
        assert counts(second) == (MANY + 20, MANY // 2 + 10, 0)
        assert files(folder) == [only(second).database]
        with duckdb.connect() as connection:
            prepare(connection, second.readable)
            assert connection.execute("select is_live from captures").fetchall() == [(True,)]
    finally:
        growing.close()
    assert only(sources([Path(growing.path)])).database != only(second).database
    assert len(files(folder)) == 1


def test_changed_captures_are_loaded_anew_and_their_old_file_goes(capture: Path, folder: Path) -> None:
    first = only(sources([capture])).database
    recorded(capture, calls=MANY + 1)
    found = sources([capture])
    assert only(found).database not in (None, first)
    assert files(folder) == [only(found).database]
    assert counts(found) == (2 * MANY + 2, MANY + 1, 0)


def test_two_captures_with_one_id_are_kept_apart(capture: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.mcpcap"
    other.write_bytes(b"".join(capture.read_bytes().splitlines(keepends=True)[:-1]))
    found = sources([capture, other, tmp_path / "." / "a.mcpcap"])
    assert len({one.id for one in found.readable}) == 2
    assert counts(found) == (4 * MANY, 2 * MANY, 0)
    assert found.duplicate_notices == [
        f"2 files hold one capture in different states, and what they share counts twice: {capture}, {other}"
    ]


def test_a_capture_cannot_claim_the_id_of_one_that_has_none(tmp_path: Path) -> None:
    place = tmp_path / "a.mcpcap"
    nameless = CaptureWriter(place, "a", capture="none")
    nameless.call(1, 1, "dig")
    forged = CaptureWriter(tmp_path / "b.mcpcap", "b", capture=path_id(place))
    for id_ in range(9):
        forged.call(id_, id_, "dig")
    found = sources([nameless.close(), forged.close()])
    assert len({one.id for one in found.readable}) == 2
    with duckdb.connect() as connection:
        prepare(connection, found.readable)
        frames = connection.execute("select count(*) from frames group by capture order by 1").fetchall()
    assert frames == [(1,), (9,)]


@pytest.mark.parametrize("cached", [True, False])
def test_the_order_in_which_captures_are_named_changes_nothing(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "1G" if cached else "0")
    lines = capture.read_bytes().splitlines(keepends=True)
    for number, name in enumerate(("0-earlier", "c-later"), 1):
        (tmp_path / f"{name}.mcpcap").write_bytes(b"".join(lines[: -number * 10]))
    shutil.copy(capture, tmp_path / "copy.mcpcap")
    paths = [*sorted(tmp_path.glob("*.mcpcap")), tmp_path / "nowhere.mcpcap"]
    told = []
    for order in (paths, paths[::-1], paths[2:] + paths[:2]):
        found = sources(order)
        with duckdb.connect() as connection:
            prepare(connection, found.readable)
            tables = "captures", "sessions", "frames", "exchanges"
            rows = [connection.execute(f"from {table}").fetchall() for table in tables]
        told.append((rows, found.readable, [path for path, _ in found.refused], found.duplicate_notices))
    assert told.count(told[0]) == len(told)
    # A capture has the same source alone as next to its earlier states.
    assert only(sources([capture])) in told[0][1]


def test_a_copy_of_a_capture_counts_once(capture: Path, tmp_path: Path) -> None:
    copies = [Path(shutil.copy(capture, tmp_path / f"b{number}.mcpcap")) for number in range(3)]
    found = sources([capture, *copies])
    assert counts(found) == (2 * MANY, MANY, 0)
    assert found.duplicate_notices == [
        f"4 files hold the same capture, and one is counted: {capture}, {copies[0]} and 2 more"
    ]


def test_copies_of_segments_are_copies_of_one_capture(tmp_path: Path) -> None:
    corpus = Path(__file__).parents[2] / "corpus/captures"
    for name in ("two-segments", "two-segments.2"):
        shutil.copy(corpus / f"{name}.mcpcap", tmp_path / f"{name.replace('two', 'x')}.mcpcap")
    found = sources([corpus / "two-segments.mcpcap", tmp_path / "x-segments.mcpcap"])
    assert (len(found.readable), len(found.duplicate_notices)) == (1, 1)
    (tmp_path / "x-segments.2.mcpcap").unlink()
    assert len(sources([corpus / "two-segments.mcpcap", tmp_path / "x-segments.mcpcap"]).readable) == 2


# ---- files that are not as expected


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def overwritten(file: Path) -> None:
    file.write_bytes(b"no database" * 10_000)


def bits_flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(4096, len(data), 1000):
        data[at] ^= 0x55
    file.write_bytes(data)


def of_another(file: Path) -> None:
    file.unlink()
    with duckdb.connect(str(file)) as connection:
        connection.execute("create table made_of (key varchar); insert into made_of values ('another')")
        connection.execute("create table frames (x integer)")


def without_a_key(file: Path) -> None:
    file.unlink()
    with duckdb.connect(str(file)) as connection:
        connection.execute("create table frames (x integer)")


@pytest.mark.parametrize("spoil", [truncated, emptied, overwritten, bits_flipped, of_another, without_a_key])
def test_spoiled_files_are_thrown_away_and_made_again(cached: Path, spoil: Callable[[Path], None]) -> None:
    before = sources([cached])
    file = only(before).database
    assert file is not None
    spoil(file)
    assert counts(before) == (2 * MANY, MANY, 0)
    # Whether the damage was noticed before or by opening the file, the next run has a good one.
    assert counts(sources([cached])) == (2 * MANY, MANY, 0)
    again = only(sources([cached])).database
    assert again is not None
    with duckdb.connect(str(again), read_only=True) as connection:
        assert connection.execute("select count(*) from frames").fetchall() == [(2 * MANY,)]


@pytest.mark.parametrize("spoil", [overwritten, of_another])
def test_findings_are_not_added_to_a_spoiled_file(cached: Path, spoil: Callable[[Path], None]) -> None:
    file = only(sources([cached])).database
    assert file is not None
    spoil(file)
    assert counts(sources([cached], findings=True), findings=True)[:2] == (2 * MANY, MANY)


def spoil_block(file: Path, number: int) -> bool:
    """Write noise over a block of the otherwise whole file; returns False if there is no such block."""
    whole = file.with_suffix(".whole")
    if not whole.exists():
        shutil.copy(file, whole)
    data = bytearray(whole.read_bytes())
    start = BLOCKS_AT + number * cache.BLOCK_BYTES
    if start >= len(data):
        return False
    data[start : start + cache.BLOCK_BYTES] = random.Random(number).randbytes(
        len(data[start : start + cache.BLOCK_BYTES])
    )
    file.write_bytes(data)
    return True


def spoil_rows(file: Path, table: str = "frames") -> None:
    """Write noise over a block that is read only with the rows of a table."""
    number = 0
    while spoil_block(file, number):
        number += 1
        with suppress(duckdb.Error), duckdb.connect() as connection:
            connection.execute(f"attach '{file}' as made (read_only)")
            assert cache.content_matches_name(connection, "made", file)
            try:
                connection.execute(f"from made.{table}").fetchall()
            except duckdb.Error:
                file.with_suffix(".whole").unlink()
                return
    raise AssertionError(f"no block holds {table}")


def rows(found: Sources) -> tuple[object, ...]:
    """The row count and a hash of every table, and the rows of a view over several tables."""
    with duckdb.connect() as connection:
        assert prepare(connection, found.readable) == []
        asked = [f"select count(*), bit_xor(hash(one)) from {table} as one" for table in TABLE_NAMES]
        return tuple(connection.execute(sql).fetchall() for sql in [*asked, "select * from latency"])


def answers_the_same(capture: Path, first: int, every_nth: int) -> None:
    """Damage one block after another, and check that the answers stay the same."""
    expected = use_sources([capture], rows)
    number, damaged, found_out = first, 0, 0
    file = only(sources([capture])).database
    assert file is not None
    blocks = (file.stat().st_size - BLOCKS_AT) // cache.BLOCK_BYTES
    while spoil_block(file, number):
        try:
            assert rows(sources([capture])) == expected
        except duckdb.Error:
            found_out += 1
        spoil_block(file, number)
        assert use_sources([capture], rows) == expected
        number += every_nth
        damaged += 1
    # Some damage is already noticed when the file is opened.
    assert (damaged, found_out > damaged / 3) == (len(range(first, blocks, every_nth)), True)


@pytest.mark.costly("the capture is loaded anew for each damaged block")
def test_whatever_block_is_damaged_the_answer_is_the_same(cached: Path) -> None:
    """One in four blocks is damaged; `make soak` damages each in turn."""
    answers_the_same(cached, 1, 4)


@pytest.mark.soak
def test_whatever_block_of_all_is_damaged_the_answer_is_the_same(cached: Path) -> None:
    answers_the_same(cached, 0, 1)


def test_only_the_damaged_file_is_thrown_away(cached: Path, tmp_path: Path) -> None:
    found = sources([cached, recorded(tmp_path / "b.mcpcap", 1)])
    one, other = (source.database for source in found.readable)
    assert one is not None
    assert other is not None
    spoil_rows(one)
    with pytest.raises(duckdb.Error) as raised:
        rows(found)
    assert delete_damaged(found.readable, raised.value)
    assert (one.exists(), other.exists()) == (False, True)


def test_nothing_is_thrown_away_because_somebody_says_so(cached: Path) -> None:
    found = sources([cached])
    file = only(found).database
    assert file is not None
    delete_damaged(found.readable, duckdb.Error("Corrupt database file: computed checksum 1 does not match"))
    assert file.exists()


def test_a_damaged_file_is_reported_once(cached: Path) -> None:
    file = only(sources([cached])).database
    assert file is not None
    spoil_rows(file)
    asked = []

    def use(found: Sources) -> None:
        asked.append(found)
        raise duckdb.Error("Corrupt database file")

    with pytest.raises(duckdb.Error, match="Corrupt"):
        use_sources([cached], use)
    assert len(asked) == 2


def test_notebooks_open_files_that_are_copied_however_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_module, "MAX_ATTACHED_SMALL_FILES", 1)
    paths = [recorded(tmp_path / f"{number}.mcpcap", number) for number in range(2)]
    found = sources(paths).readable
    for one in found:
        assert one.database is not None
        spoil_rows(one.database)
    with analysis.open(paths) as connection:
        (frames,) = connection.execute("select count(*), count(raw) from frames").fetchall()
    # The damage was found in the file that is copied, and then in all others.
    assert frames == (len(paths) * 2 * MANY, len(paths) * 2 * MANY)


# ---- paths that are not files


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def made_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "something").touch()


@pytest.mark.parametrize("spoil", [piped, made_a_folder])
def test_what_is_no_file_is_not_waited_for_and_goes(cached: Path, spoil: Callable[[Path], None]) -> None:
    file = only(sources([cached])).database
    assert file is not None
    spoil(file)
    assert counts(sources([cached])) == (2 * MANY, MANY, 0)
    assert file.is_file()


def test_file_that_is_gone_when_it_is_needed_does_no_harm(cached: Path) -> None:
    found = sources([cached])
    cache.delete_all()
    assert counts(found) == (2 * MANY, MANY, 0)


def test_capture_that_is_gone_when_it_is_needed_is_told(tmp_path: Path) -> None:
    one, other = (recorded(tmp_path / f"{number}.mcpcap", number, 5) for number in (1, 2))
    found = sources([one, other])
    one.unlink()
    with duckdb.connect() as connection:
        ((path, error),) = prepare(connection, found.readable)
        assert (path, str(one) in str(error)) == (one, True)
        assert connection.execute("select distinct capture from frames").fetchall() == [(f"{2:032x}",)]


def test_what_is_no_capture_is_told_beside_the_rest(capture: Path, tmp_path: Path) -> None:
    newer = CORPUS / "newer-format.mcpcap"
    found = sources([newer, capture, tmp_path / "nowhere.mcpcap"])
    refused = dict(found.refused)
    assert refused.keys() == {newer, tmp_path / "nowhere.mcpcap"}
    assert isinstance(refused[newer], NewerFormat)
    assert counts(found)[0] == 2 * MANY


# ---- disks and locations


def test_nobody_has_a_cache_without_a_home(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert directory() == Path(
        "/home/ada/Library/Caches/mcpproxy/sql" if sys.platform == "darwin" else "/home/ada/.cache/mcpproxy/sql"
    )


@pytest.mark.parametrize("place", ["file", "nowhere/below/a/file"])
def test_place_that_cannot_be_made_is_done_without(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    found = sources([capture])
    assert only(found).database is None
    assert counts(found) == (2 * MANY, MANY, 0)


def test_folder_that_others_may_enter_is_closed_to_them(capture: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    sources([capture])
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux has them")
def test_limit_on_files_is_done_without_and_leaves_nothing(capture: Path, folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        found = sources([capture])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert only(found).database is None
    assert counts(found) == (2 * MANY, MANY, 0)
    assert files(folder) == []


ASKED = """
import sys
from pathlib import Path
from analysis.store import cache
from analysis.store.connection import connect
from analysis.store.open import prepare, sources
cache.MIN_CAPTURE_BYTES = int(sys.argv[2])
found = sources([Path(sys.argv[1])])
with connect() as connection:
    prepare(connection, found.readable)
    print(found.readable[0].database is not None, connection.execute("select count(*) from frames").fetchall()[0][0])
"""


@needs_namespaces
@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_full_or_read_only_disk_is_done_without(capture: Path, tmp_path: Path, options: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f'mount -t tmpfs -o {options} none "$1" || exit 99; shift; exec "$@"'
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        script,
        "sh",
        str(disk),
        sys.executable,
        "-c",
        ASKED,
        str(capture),
        str(SMALLEST),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(disk)})
    if done.returncode == 99:
        pytest.skip("no tmpfs can be mounted here")
    assert (done.stdout, done.stderr) == (f"False {2 * MANY}\n", "")


# ---- several processes


def test_runs_at_the_same_time_do_not_disturb_each_other(capture: Path, folder: Path) -> None:
    command = [sys.executable, "-c", ASKED, str(capture), str(SMALLEST)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate(timeout=DEADLINE_S)[0] for process in running}
    assert said == {f"True {2 * MANY}\n"}
    assert len(files(folder)) == 1


def test_what_a_killed_run_has_left_goes_when_it_is_old(capture: Path, folder: Path) -> None:
    left, fresh = folder / ".making-left", folder / ".making-fresh"
    for one in (left, fresh):
        one.mkdir(parents=True)
        (one / "made.duckdb").write_bytes(b"half")
    old = time.time() - cache.ABANDONED_AFTER_S - 1
    os.utime(left, (old, old))
    sources([capture])
    assert (left.exists(), fresh.exists()) == (False, True)


# ---- size


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        ("0", 0),
        ("5000", 5000),
        ("3K", 3 << 10),
        ("2MiB", 2 << 20),
        (" 1gb ", 1 << 30),
        ("many", DEFAULT_CACHE_BYTES),
        ("", DEFAULT_CACHE_BYTES),
    ],
)
def test_cap_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, given: str, bytes_: int) -> None:
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", given)
    assert size_limit() == bytes_


def test_oldest_use_goes_first(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [recorded(tmp_path / f"{number}.mcpcap", number) for number in range(4)]
    made = [only(sources([path])).database for path in paths[:3]]
    for age, file in zip((100, 300, 200), made, strict=True):
        assert file is not None
        os.utime(file, (time.time() - age, time.time() - age))
    assert made[0] is not None
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", str(made[0].stat().st_size * 3 + 100_000))
    last = only(sources([paths[3]])).database
    assert set(files(folder)) == {made[0], made[2], last}


def test_files_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [recorded(tmp_path / f"{number}.mcpcap", number) for number in range(3)]
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "1K")
    found = sources(paths)
    assert all(one.database is not None and one.database.exists() for one in found.readable)
    assert counts(found)[0] == 3 * 2 * MANY


def test_clear_tells_what_it_has_freed(capture: Path, folder: Path) -> None:
    assert cache.delete_all() == (0, 0, 0)
    file = only(sources([capture])).database
    assert file is not None
    (folder / ".making-left").mkdir()
    size = file.stat().st_size
    assert cache.delete_all() == (1, size, 0)
    assert files(folder) == []


def test_files_of_others_stay(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "project.duckdb").mkdir(parents=True)
    (elsewhere / "project.duckdb/thesis").touch()
    (elsewhere / "mine.duckdb").touch()
    folder.parent.mkdir(parents=True)
    folder.symlink_to(elsewhere)
    monkeypatch.setenv("MCPPROXY_CACHE_SIZE", "10K")
    for number in range(2):
        sources([recorded(tmp_path / f"{number}.mcpcap", number)])
    ours = {one.name for one in files(folder)} - {"mine.duckdb", "project.duckdb"}
    assert len(ours) == 1
    assert cache.delete_all().deleted_files == 1
    assert [one.name for one in files(folder)] == ["mine.duckdb", "project.duckdb"]
    assert (folder / "project.duckdb/thesis").exists()


@pytest.mark.parametrize(
    "own",
    [
        "alter table frames rename to hidden; create view frames as select * replace ('x' as dir) from hidden",
        """
        alter table frames rename to hidden;
        create table frames (dir varchar generated always as ('x'), raw blob);
        insert into frames (raw) select raw from hidden;
        drop table hidden
        """,
    ],
    ids=["a view", "a generated column"],
)
def test_a_file_with_sql_of_its_own_is_not_used(cached: Path, folder: Path, own: str) -> None:
    file = only(sources([cached])).database
    assert file is not None
    with duckdb.connect(str(file)) as connection:
        connection.execute(own)
    found = sources([cached])
    assert counts(found) == (2 * MANY, MANY, 0)
    with duckdb.connect() as connection:
        prepare(connection, sources([cached]).readable)
        assert connection.execute("select count(*) from frames where dir = 'x'").fetchall() == [(0,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_used(cached: Path) -> None:
    file = only(sources([cached])).database
    assert file is not None
    os.chown(file, 4711, 4711)
    assert cache.find_file(cached, only(sources([cached])).id) == file
    assert file.stat().st_uid == os.getuid()


def test_a_home_whose_name_is_no_utf_8_has_no_cache(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fsdecode(os.fsencode(tmp_path) + b"/h\xff"))
    found = sources([capture])
    assert only(found).database is None
    assert counts(found) == (2 * MANY, MANY, 0)


def test_an_error_that_only_says_so_costs_nothing(cached: Path) -> None:
    found = sources([cached])
    for words in ("Could not read", "Corrupt database file"):
        assert not delete_damaged(found.readable, duckdb.Error(words))
        assert not delete_damaged([], duckdb.Error(words))


def test_storage_is_one_that_older_databases_read(cached: Path) -> None:
    file = only(sources([cached])).database
    assert file is not None
    with duckdb.connect() as connection:
        connection.execute(f"attach '{file}' as made (read_only)")
        rows = connection.execute("select tags from duckdb_databases() where database_name = 'made'").fetchall()
    assert "v1.2.0" in str(rows)
