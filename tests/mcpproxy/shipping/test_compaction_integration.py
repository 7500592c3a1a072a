"""Compaction while another machine ships: whatever happens between two steps, no row is lost or duplicated."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mcpproxy.shipping.compaction import MIN_SINGLE_CAPTURES, compact_day, days_to_compact, withdraw_capture
from mcpproxy.shipping.destination import StoredContent, StoredObject
from mcpproxy.shipping.folder import Folder
from mcpproxy.shipping.manifest import DayManifest, day_name, manifest_name, parse_day_manifest, read_manifest
from mcpproxy.shipping.shipment import ShipOptions, ShippedListing, is_complete, ship_capture
from tests.mcpproxy.shipping.data_set import DAY, OPENED, is_tidy, rows, written
from tests.rows import row

PLAIN, WITH_RAW = ShipOptions(redacted=False), ShipOptions(redacted=False, raw=True)
OTHER = 3
"""The capture that another machine ships."""
Step = tuple[str, str]
"""The operation, and the name it is applied to."""


class Busy(Folder):
    """A directory in which something happens before one step, counted from 1; it records all steps."""

    def __init__(self, root: Path, step: int = 0, act: Callable[[], object] = lambda: None) -> None:
        super().__init__(root)
        self._step = step
        self._act = act
        self.steps: list[Step] = []

    def _note(self, what: str, name: str) -> None:
        self.steps.append((what, name))
        if len(self.steps) == self._step:
            self._act()

    def put(self, name: str, file: Path) -> None:
        self._note("put", name)
        super().put(name, file)

    def replace(self, name: str, data: bytes, before: StoredContent | None) -> bool:
        self._note("replace", name)
        return super().replace(name, data, before)

    def read(self, name: str) -> StoredContent | None:
        self._note("read", name)
        return super().read(name)

    def fetch(self, name: str, file: Path, size: int) -> bool:
        self._note("fetch", name)
        return super().fetch(name, file, size)

    def entries(self, folder: str) -> Iterator[StoredObject]:
        self._note("entries", folder)
        return super().entries(folder)

    def delete(self, name: str) -> None:
        self._note("delete", name)
        super().delete(name)


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("captures")
    return [written(folder, number, OPENED, tables=3) for number in range(MIN_SINGLE_CAPTURES)]


@pytest.fixture(scope="module")
def first(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set to which each of the captures has been shipped once."""
    lake = Folder(tmp_path_factory.mktemp("first"))
    for source in sources:
        shipped(source, PLAIN, lake, tmp_path_factory.mktemp("room"))
    lake.close()
    return lake.root


@pytest.fixture
def root(first: Path, tmp_path: Path) -> Path:
    """A copy of that data set."""
    return Path(shutil.copytree(first, tmp_path / "lake"))


@pytest.fixture(scope="module")
def day(first: Path) -> str:
    (path,) = (first / "captures").iterdir()
    return path.name.removeprefix("day=")


@pytest.fixture(scope="module")
def steps(first: Path, day: str, tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of a compaction of that data set."""
    busy = Busy(Path(shutil.copytree(first, tmp_path_factory.mktemp("steps") / "lake")))
    compact_day(day, busy, tmp_path_factory.mktemp("room"))
    busy.close()
    return busy.steps


def shipped(source: Path, choices: ShipOptions, lake: Folder, room: Path) -> None:
    result = ship_capture(source, f"{int(source.stem):032x}", choices, lake, room)
    assert result is not None
    assert is_complete(result.manifest, lake)


def check_a_shipment_before(step: int, choices: ShipOptions, source: Path, first: Path, day: str, folder: Path) -> None:
    """No row is lost or duplicated, and once both runs are done, no file is left over."""
    room, other = folder / "room", folder / "other"
    room.mkdir(parents=True)
    other.mkdir()
    expected = rows(first)
    lake = Folder(Path(shutil.copytree(first, folder / "lake")))
    busy = Busy(lake.root, step, partial(shipped, source, choices, lake, other))
    compact_day(day, busy, room)
    busy.close()
    assert len(busy.steps) >= step
    assert rows(lake.root) == expected
    shipped(source, choices, lake, room)
    assert rows(lake.root) == expected
    for path in lake.root.rglob("*.parquet"):
        os.utime(path, (0, 0))
    compact_day(day, lake, room)
    assert (rows(lake.root), is_tidy(lake.root)) == (expected, True)
    lake.close()


def critical(steps: list[Step]) -> list[int]:
    """Returns the steps before which a shipment matters most: its files are read, fetched, replaced and deleted."""
    own = [number for number, (_, name) in enumerate(steps, 1) if f"{OTHER:032x}" in name]
    (switch,) = (number for number, (what, _) in enumerate(steps, 1) if what == "replace")
    fetched, deleted = ([number for number in own if steps[number - 1][0] == what] for what in ("fetch", "delete"))
    return [own[0], fetched[-1], switch, deleted[0], deleted[-1]]


@pytest.mark.costly("it compacts and ships five times, each time at another moment")
def test_a_shipment_between_two_steps_loses_nothing(
    steps: list[Step], sources: list[Path], first: Path, day: str, tmp_path: Path
) -> None:
    for step in critical(steps):
        with row(step, *steps[step - 1]):
            check_a_shipment_before(step, WITH_RAW, sources[OTHER], first, day, tmp_path / str(step))


@pytest.mark.costly("it compacts and ships three times, each time at another moment")
def test_a_shipment_of_nothing_new_between_two_steps_loses_nothing(
    steps: list[Step], sources: list[Path], first: Path, day: str, tmp_path: Path
) -> None:
    for step in critical(steps)[-3:]:
        with row(step, *steps[step - 1]):
            check_a_shipment_before(step, PLAIN, sources[OTHER], first, day, tmp_path / str(step))


@pytest.mark.soak
@pytest.mark.parametrize("choices", [PLAIN, WITH_RAW], ids=["nothing new", "a new shipment"])
def test_a_shipment_between_any_two_steps_loses_nothing(
    choices: ShipOptions, steps: list[Step], sources: list[Path], first: Path, day: str, tmp_path: Path
) -> None:
    for step in range(1, len(steps) + 1):
        with row(step, *steps[step - 1]):
            check_a_shipment_before(step, choices, sources[OTHER], first, day, tmp_path / str(step))


@pytest.mark.parametrize("what", ["fetch", "replace"])
def test_two_compactions_at_once_give_one(
    what: str, steps: list[Step], first: Path, root: Path, day: str, room: Path
) -> None:
    lake = Folder(root)
    done: list[object] = []
    step = max(number for number, (kind, _) in enumerate(steps, 1) if kind == what)
    busy = Busy(lake.root, step, lambda: done.append(compact_day(day, lake, room)))
    done.append(compact_day(day, busy, room))
    assert sorted(map(bool, done)) == [False, True]
    assert (rows(lake.root), is_tidy(lake.root)) == (rows(first), True)
    busy.close()
    lake.close()


def test_only_days_with_many_files_are_compacted(root: Path, day: str, tmp_path: Path, room: Path) -> None:
    lake = Folder(root)
    shipped(written(tmp_path / "captures", 9, OPENED + DAY, tables=3), PLAIN, lake, room)
    first, second = sorted(path.name.removeprefix("day=") for path in (lake.root / "captures").iterdir())
    assert first == day
    assert days_to_compact("9", lake) == [first]
    assert days_to_compact(first, lake) == []
    assert compact_day(second, lake, room) is None
    lake.close()


@pytest.mark.costly("it ships every capture of a day twice")
def test_the_last_capture_of_a_day_can_leave_its_files(sources: list[Path], root: Path, day: str, room: Path) -> None:
    lake = Folder(root)
    assert compact_day(day, lake, room) is not None
    for source in sources:
        shipped(source, WITH_RAW, lake, room)
    stored = lake.read(day_name(day))
    assert stored is not None
    assert parse_day_manifest(stored.data, day, "") == DayManifest(day, {}, ())
    assert len(rows(lake.root)["captures"]) == len(sources)
    assert is_tidy(lake.root)
    assert not withdraw_capture(day, "0" * 32, "x", lake, room)
    lake.close()


def test_a_day_never_has_more_captures_than_its_manifest_can_hold(
    root: Path, day: str, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Folder(root)
    monkeypatch.setattr("mcpproxy.shipping.compaction.MAX_COMPACTED_CAPTURES", MIN_SINGLE_CAPTURES - 1)
    assert compact_day(day, lake, room) is None
    lake.close()


def test_a_listing_learns_of_deletions(sources: list[Path], root: Path, tmp_path: Path, room: Path) -> None:
    lake = Folder(root)
    (earlier,) = (entry.name for entry in lake.entries("captures") if f"{0:032x}" in entry.name)
    shipped(sources[0], WITH_RAW, lake, room)
    again = read_manifest(f"{0:032x}", lake)
    assert again is not None
    (root / earlier).write_bytes(b"earlier")
    lake.write(manifest_name(again.capture), replace(again, replaced=(earlier,)).encoded())
    there = ShippedListing(lake)
    assert there.size(earlier) == 7
    ship_capture(sources[0], again.capture, WITH_RAW, lake, room, there)
    assert there.size(earlier) is None
    lake.close()
