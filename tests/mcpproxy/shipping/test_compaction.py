"""Compaction while another machine ships: whatever comes between two steps, no row is lost or there twice."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mcpproxy.shipping.compaction import compact, days_to_compact, withdraw
from mcpproxy.shipping.destination import CannotShip, Entry, Stored
from mcpproxy.shipping.folder import Folder
from mcpproxy.shipping.manifest import Day, day_name, day_of, manifest_of
from mcpproxy.shipping.shipment import Choices, is_complete, ship
from tests.mcpproxy.shipping.data_set import DAY, OPENED, is_tidy, rows, written

PLAIN, WITH_RAW = Choices(redacted=False), Choices(redacted=False, raw=True)
EVERY = 5
"""Something comes before every such step."""
STEPS = 200
"""More than a compaction takes."""


class Busy(Folder):
    """A directory in which something happens before one step."""

    def __init__(self, root: Path, step: int, act: Callable[[], object]) -> None:
        super().__init__(root)
        self._left = step
        self._act = act
        self.has_acted = False

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.has_acted = True
            self._act()

    def put(self, name: str, file: Path) -> None:
        self._step()
        super().put(name, file)

    def replace(self, name: str, data: bytes, before: Stored | None) -> bool:
        self._step()
        return super().replace(name, data, before)

    def read(self, name: str) -> Stored | None:
        self._step()
        return super().read(name)

    def fetch(self, name: str, file: Path) -> bool:
        self._step()
        return super().fetch(name, file)

    def entries(self, folder: str) -> Iterator[Entry]:
        self._step()
        return super().entries(folder)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    return [written(tmp_path / "captures", number, OPENED, tables=4) for number in range(5)]


def shipped(source: Path, choices: Choices, lake: Folder, room: Path) -> None:
    result = ship(source, f"{int(source.stem):032x}", choices, lake, room)
    assert result is not None
    assert is_complete(result.manifest, lake)


@pytest.mark.parametrize("choices", [PLAIN, WITH_RAW], ids=["nothing new", "a new shipment"])
def test_a_shipment_between_any_two_steps_loses_nothing(
    choices: Choices, sources: list[Path], tmp_path: Path, room: Path
) -> None:
    first = Folder(tmp_path / "first")
    for source in sources:
        shipped(source, PLAIN, first, room)
    expected = rows(first.root)
    first.close()
    (day,) = [path.name.removeprefix("day=") for path in (tmp_path / "first/captures").iterdir()]
    other = tmp_path / "other"
    other.mkdir()
    for step in range(1, STEPS, EVERY):
        lake = Folder(Path(shutil.copytree(tmp_path / "first", tmp_path / f"lake{step}")))
        busy = Busy(lake.root, step, partial(shipped, sources[3], choices, lake, other))
        compact(day, busy, room)
        busy.close()
        if not busy.has_acted:
            assert step > EVERY
            return
        assert rows(lake.root) == expected
        shipped(sources[3], choices, lake, room)
        assert rows(lake.root) == expected
        for path in lake.root.rglob("*.parquet"):
            os.utime(path, (0, 0))
        compact(day, lake, room)
        assert (rows(lake.root), is_tidy(lake.root)) == (expected, True)
        lake.close()
    raise AssertionError("the compaction has more steps")


def test_two_compactions_at_once_give_one(sources: list[Path], tmp_path: Path, room: Path) -> None:
    lake = Folder(tmp_path / "lake")
    for source in sources:
        shipped(source, PLAIN, lake, room)
    expected = rows(lake.root)
    (day,) = days_to_compact("9", lake)
    done: list[object] = []
    busy = Busy(lake.root, 30, lambda: done.append(compact(day, lake, room)))
    done.append(compact(day, busy, room))
    assert sorted(map(bool, done)) == [False, True]
    assert (rows(lake.root), is_tidy(lake.root)) == (expected, True)
    busy.close()
    lake.close()


def test_only_days_with_many_files_are_compacted(sources: list[Path], tmp_path: Path, room: Path) -> None:
    lake = Folder(tmp_path / "lake")
    later = written(tmp_path / "captures", 9, OPENED + DAY, tables=4)
    for source in (*sources, later):
        shipped(source, PLAIN, lake, room)
    first, second = sorted(path.name.removeprefix("day=") for path in (lake.root / "captures").iterdir())
    assert days_to_compact("9", lake) == [first]
    assert days_to_compact(first, lake) == []
    assert compact(second, lake, room) is None
    lake.close()


def test_the_last_capture_of_a_day_can_leave_its_files(sources: list[Path], tmp_path: Path, room: Path) -> None:
    lake = Folder(tmp_path / "lake")
    for source in sources:
        shipped(source, PLAIN, lake, room)
    (day,) = days_to_compact("9", lake)
    assert compact(day, lake, room) is not None
    for source in sources:
        shipped(source, WITH_RAW, lake, room)
    stored = lake.read(day_name(day))
    assert stored is not None
    assert day_of(stored.data, "") == Day(day, {}, ())
    assert len(rows(lake.root)["captures"]) == 5
    assert is_tidy(lake.root)
    assert not withdraw(day, "0" * 32, "x", lake, room)
    lake.close()


def test_what_is_not_a_manifest_is_refused() -> None:
    for text in (b"", b"[]", b"{}", b'{"format": 1}', b'{"format": "1"}', b"[" * 100_000):
        with pytest.raises(CannotShip, match="not a manifest"):
            manifest_of(text, "it")
        with pytest.raises(CannotShip, match="not a manifest"):
            day_of(text, "it")
    with pytest.raises(CannotShip, match="update mcpproxy"):
        manifest_of(b'{"format": 2}', "it")
