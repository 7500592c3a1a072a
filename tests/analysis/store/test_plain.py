"""Rows that SQL makes of a capture are those that the fold makes, or SQL leaves the capture to the fold."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.child_process import PythonChild
from analysis.store import cache
from analysis.store.open import sources
from analysis.store.plain import child, parent
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.lines import Lines
from analysis.store.plain.parent import load_plain
from captures.reader import Capture, Damage
from captures.record import Record, members
from tests.analysis.store.both_ways import MEMORY, Both, InThread, Ways
from tests.analysis.store.hostile import ODD, Maker
from tests.analysis.traces import corpus

SEEDS = st.integers(0, 2**48)


# ---- equal rows are the contract


def compare_corpus(place: Path, every: int) -> Ways:
    with Ways(place) as ways:
        for number, (_, case) in enumerate(corpus()):
            if case.transport == "stdio" and number % every == 0:
                path = place / f"{number}.mcpcap"
                path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))
                ways.compare(path)
    return ways


def compare_made(place: Path, seed: int) -> Ways:
    """A conversation, a few frames that are nearly messages, and a line in an odd spelling."""
    with Ways(place / f"{seed}") as ways:
        for name, steps, mutants, misspelt in (("talk", 60, 0, 0), ("frames", 10, 4, 0), ("lines", 10, 0, 1)):
            maker = Maker(Random(seed))
            maker.talk(steps)
            maker.mutate(mutants)
            if misspelt:
                maker.misspell()
            ways.compare(maker.write(place / f"{name}.mcpcap"))
        maker = Maker(Random(seed))
        for _ in range(3):
            maker.talk(15)
            maker.next_segment()
        maker.talk(15)
        ways.compare(maker.write(place / "segments.mcpcap"))
    return ways


def test_corpus_loads_the_same_in_both_ways(tmp_path: Path) -> None:
    ways = compare_corpus(tmp_path, 12)
    assert ways.plain > 20


@pytest.mark.timeout(600)
def test_made_captures_load_the_same_in_both_ways(tmp_path: Path) -> None:
    plain = 0

    @settings(max_examples=60, deadline=None, database=None)
    @given(SEEDS)
    def run(seed: int) -> None:
        nonlocal plain
        plain += compare_made(tmp_path, seed).plain

    run()
    assert plain > 40


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_the_whole_corpus_and_very_many_captures_load_the_same_in_both_ways(tmp_path: Path) -> None:
    assert compare_corpus(tmp_path, 1).plain > 500
    for seed in range(int(os.environ.get("MCPPROXY_SOAK_CASES", "100_000")) // 3):
        compare_made(tmp_path, seed)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "corpus").rglob("*.mcpcap")), ids=lambda p: p.stem)
def test_kept_captures_load_the_same_in_both_ways(path: Path, tmp_path: Path) -> None:
    with Ways(tmp_path) as ways:
        try:
            Capture(path)
        except Exception:  # noqa: BLE001 - no capture: nothing to compare
            return
        ways.compare(path)


# ---- which captures, and what becomes of the others


def maker(steps: int = 0, *, seed: int = 7, oddity: float = 0.0) -> Maker:
    made = Maker(Random(seed))
    made.talk(steps, oddity=oddity, trouble=0.0)
    return made


def doubt_about(path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    return Both(path, place).doubt


def test_one_odd_frame_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(100)
    for raw in ODD:
        made.raw("c2s", raw)
        made.talk(2, oddity=0.0, trouble=0.0)
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "odd.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}
    with duckdb.connect(str(both.plain)) as connection:
        (problems,) = connection.execute("select count(problem) from frames").fetchone() or (0,)
    assert problems > 5


@pytest.mark.parametrize(
    ("rec", "given", "why"),
    [
        ("gap", {"first": 1, "last": 2}, "a record of type gap"),
        ("exchange", {"exchange": 1}, "another record"),
        ("header", {"format": 1}, "a record of type header"),
    ],
)
def test_what_a_pipe_or_a_whole_capture_does_not_have_is_left_to_the_fold(
    rec: str, given: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(5)
    made.add(rec, members(**given))
    assert doubt_about(made.write(tmp_path / "other.mcpcap"), tmp_path / "rows", monkeypatch) == why


def test_stall_of_a_request_that_nothing_can_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(5)
    made.say("c2s", id=None, method="no/id")
    made.ns += 10**9
    made.add("stall", members(dir="c2s", of=made.seq - 1, waited_ns=5_000_000))
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "stalled.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def test_segments_are_loaded_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(100)
    for raw in ODD:
        made.raw("c2s", raw)
        made.talk(2, oddity=0.0, trouble=0.0)
        made.next_segment()
    made.talk(100, oddity=0.0, trouble=0.0)
    monkeypatch.setattr(parent, "SMALLEST", 0)
    monkeypatch.setattr(parent, "PythonChild", InThread)
    both = Both(made.write(tmp_path / "many.mcpcap"), tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def no_header(made: Maker) -> None:
    made.begin_segment()


def foreign_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.header(capture="1" * 32)


def later_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.header(version=2)


def no_close(made: Maker) -> None:
    made.begin_segment()
    made.header()


def other_close(made: Maker) -> None:
    made.add("close", members(ending="server"))
    made.begin_segment()
    made.header()


def late_header(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.begin_segment()
    made.talk(1)
    made.header()


def torn_end(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.lines[-1] = made.lines[-1][:-1]
    made.begin_segment()
    made.header()


def empty_between(made: Maker) -> None:
    made.next_segment()
    made.begin_segment()
    made.header()


def header_only_in_the_middle(made: Maker) -> None:
    made.add("close", members(ending="segment"))
    made.header()


@pytest.mark.parametrize(
    "spoil",
    [
        no_header,
        foreign_header,
        later_header,
        no_close,
        other_close,
        late_header,
        torn_end,
        empty_between,
        header_only_in_the_middle,
    ],
)
def test_segments_of_another_kind_are_left_to_the_fold(
    spoil: Callable[[Maker], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(5)
    spoil(made)
    made.talk(5, oddity=0.0, trouble=0.0)
    assert doubt_about(made.write(tmp_path / "spoilt.mcpcap"), tmp_path / "rows", monkeypatch) is not None


def test_lost_segment_is_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = maker(5)
    for _ in range(2):
        made.next_segment()
        made.talk(5, oddity=0.0, trouble=0.0)
    path = made.write(tmp_path / "lost.mcpcap")
    (tmp_path / "lost.2.mcpcap").unlink()
    assert doubt_about(path, tmp_path / "rows", monkeypatch) is not None
    path.unlink()
    assert doubt_about(tmp_path / "lost.3.mcpcap", tmp_path / "later", monkeypatch) is not None


def test_any_flipped_bit_is_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = maker(5).write(tmp_path / "flipped.mcpcap")
    data = bytearray(path.read_bytes())
    rng = Random(3)
    begins = data.index(b'{"seq":4')
    for number in range(20):
        at, bit = rng.randrange(begins, len(data) - 1), 1 << rng.randrange(8)
        data[at] ^= bit
        path.write_bytes(data)
        items = list(Capture(path))
        assert any(isinstance(item, Damage) for item in items) or len([i for i in items if isinstance(i, Record)])
        assert doubt_about(path, tmp_path / f"{number}", monkeypatch) is not None
        data[at] ^= bit


def test_small_captures_start_no_process(tmp_path: Path) -> None:
    with pytest.raises(Doubt, match="small"):
        load_plain(maker(5).write(tmp_path / "s.mcpcap"), tmp_path / "x", "A", options="", memory=MEMORY)


# ---- the process


def large(place: Path) -> Path:
    """A capture that is worth the process."""
    made = maker(60)
    while sum(map(len, made.lines[-1:])) * made.seq < 2 * parent.SMALLEST:
        for _ in range(500):
            made.number += 1
            made.say("c2s", id=made.number, method="tools/call", params={"name": "echo", "arguments": {"x": "y" * 900}})
            made.say("s2c", id=made.number, result={"content": [{"type": "text", "text": "z" * 900}]})
    return made.write(place / "large.mcpcap")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return large(tmp_path_factory.mktemp("big"))


def how(database: Path | None) -> str:
    assert database is not None
    with duckdb.connect(str(database), read_only=True) as connection:
        (row,) = connection.execute("select how from made_of").fetchall()
    return str(row[0])


def test_process_of_its_own_makes_the_cache_file(big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (source,) = sources([big]).readable
    assert how(source.database) == cache.BY_SQL
    both = Both(big, tmp_path / "rows")
    assert both.doubt is None
    assert both.differences() == {}


def test_killed_process_costs_only_time(big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(PythonChild):
        def __init__(self, module: str, *, bare: bool = False) -> None:
            super().__init__(module, bare=bare)
            self.kill()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parent, "PythonChild", Dying)
    (source,) = sources([big]).readable
    assert how(source.database) == "the child has died"
    assert source.database is not None
    with duckdb.connect(str(source.database), read_only=True) as connection:
        assert connection.execute("select count(*) > 1000 from frames").fetchall() == [(True,)]


@pytest.mark.parametrize("fault", [AttributeError("x"), duckdb.InternalException("x")])
def test_fault_costs_only_time(fault: Exception, big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Lines, report: object) -> None:
        raise fault

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Lines, "read", fail)
    (source,) = sources([big]).readable
    assert how(source.database) == f"a fault: {type(fault).__name__}"


def test_child_opens_only_the_capture_and_its_file(tmp_path: Path) -> None:
    capture, other = tmp_path / "a.mcpcap", tmp_path / "other.json"
    capture.write_bytes(b"{}\n")
    other.write_text("{}\n")
    setup = {
        **{name: os.fsencode(tmp_path / end).hex() for name, end in (("database", "d.duckdb"), ("spilled", "s"))},
        "segments": [os.fsencode(capture).hex()],
        **dict.fromkeys(("id", "key", "wall", "first", "revision", "server_revision", "server_era", "used")),
        "is_http": False,
        "far": 0,
        "memory": MEMORY,
        "threads": 1,
        "options": cache._OPTIONS,
    }
    with child.locked(setup) as connection:
        assert connection.execute(f"select count(*) from read_json('{capture}')").fetchall() == [(1,)]
        for statement in (
            f"select * from read_json('{other}')",
            f"select * from read_text('{tmp_path}/../*')",
            f"copy (select 1) to '{other}'",
            f"attach '{tmp_path}/new.duckdb'",
            "select * from read_json('https://localhost/x')",
            "install httpfs",
            "load httpfs",
            "set enable_external_access = true",
            f"set allowed_paths = ['{other}']",
            "set memory_limit = '10GB'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
    assert other.read_text() == "{}\n"
    assert not (tmp_path / "new.duckdb").exists()


def test_kernel_limits_the_child(tmp_path: Path) -> None:
    names = ("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_AS")
    code = (
        "import json, resource; from analysis.store.plain import child; "
        "child._limit_all({'memory': 10**8, 'processor_s': 9, 'largest': 10**6}); "
        f"print(json.dumps([resource.getrlimit(getattr(resource, n))[1] for n in {names}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[3])
    core, files, processor_s, largest, space = json.loads(done.stdout)
    assert (core, files, processor_s, largest) == (0, child.DESCRIPTORS, 9, 10**6)
    assert 10**8 < space < 16 << 30
    assert resource.getrlimit(resource.RLIMIT_CPU)[1] == resource.RLIM_INFINITY
