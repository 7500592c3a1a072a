"""`mcpproxy cache clear` deletes what the SQL commands keep, and nothing else."""

from pathlib import Path

import pytest

from bench.check import repeated
from mcpproxy.report import units
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


@pytest.mark.parametrize("arguments", [[], ["empty"], ["clear", "all"]])
def test_it_does_one_thing(tmp_path: Path, arguments: list[str]) -> None:
    done = mcpproxy("cache", *arguments, HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, b"")
