"""Shipping continues in a data set whose files have old column names: the files are kept, and all rows can be read."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mcpproxy.shipping.compaction import MIN_SINGLE_CAPTURES, compact_day
from mcpproxy.shipping.folder import Folder
from mcpproxy.shipping.shipment import ShipOptions, ship_capture
from tests.mcpproxy.shipping.data_set import documents, is_tidy, named, present, written
from tests.mcpproxy.shipping.shipped_before import before, data_set

CHOICES = ShipOptions(redacted=False, findings=True)
PAGE = Path(__file__).parents[3] / "docs/scale.md"


@pytest.fixture
def lake(tmp_path: Path) -> Folder:
    return Folder(data_set(tmp_path / "lake"))


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


def shipped(lake: Folder, room: Path, tmp_path: Path) -> None:
    """Ship some captures of the same day into the data set."""
    for number in range(MIN_SINGLE_CAPTURES):
        assert ship_capture(written(tmp_path / "new", number), f"{number:032x}", CHOICES, lake, room) is not None


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in present(root)}


def asked(root: Path, sql: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a statement over all files of the data set."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file in named(root):
        files[file["table"]].append(str(root / file["name"]))
    with duckdb.connect() as connection:
        for table, names in files.items():
            connection.execute(f"create view {table} as from read_parquet({names}, union_by_name = true)")
        return connection.execute(sql).fetchall()


def test_what_is_there_counts_as_shipped_and_stays_as_it_is(lake: Folder, room: Path, tmp_path: Path) -> None:
    there = contents(lake.root)
    result = ship_capture(before(tmp_path / "before.mcpcap"), f"{77:032x}", CHOICES, lake, room)
    assert result is not None
    assert result.put_files == ()
    shipped(lake, room, tmp_path)
    assert contents(lake.root).items() > there.items()
    assert is_tidy(lake.root)


def test_compaction_keeps_the_values_of_both(lake: Folder, room: Path, tmp_path: Path) -> None:
    shipped(lake, room, tmp_path)
    (day,) = {manifest["day"] for manifest in documents(lake.root, "_manifests")}
    counts = {table: asked(lake.root, f"select count(*) from {table}") for table in ("captures", "sessions", "frames")}
    assert compact_day(day, lake, room) is not None
    assert is_tidy(lake.root)
    assert {table: asked(lake.root, f"select count(*) from {table}") for table in counts} == counts
    own = "where capture = '0000000000000000000000000000004d'"
    assert asked(lake.root, f"select name, host, server from captures {own}") == [("before", "editor", None)]
    assert asked(lake.root, f"select server, client, server_name from sessions {own}") == [("weather", "c", None)]
    assert asked(lake.root, f"select waited_ns, stall_ns from frames {own} and waited_ns > 0") == [(4_000_000, None)]
    names = asked(lake.root, f"select server, name from captures {own.replace('=', '<>')} order by all")
    assert names == [(f"server-{number}", None) for number in range(MIN_SINGLE_CAPTURES)]


def test_the_statement_of_the_page_reads_files_of_any_version(
    lake: Folder, room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (statement,) = [block for block in blocks if "coalesce(server, name)" in block]
    monkeypatch.chdir(tmp_path)

    def servers() -> dict[str, str | None]:
        with duckdb.connect() as connection:
            return {server: client for server, client, _ in connection.execute(statement).fetchall()}

    assert servers() == {"before": "editor"}
    shipped(lake, room, tmp_path)
    new = {f"server-{number}": None for number in range(MIN_SINGLE_CAPTURES)}
    assert servers() == {"before": "editor", **new}
    (old,) = lake.root.glob("captures/*/*4d.parquet")
    old.unlink()
    assert servers() == new
