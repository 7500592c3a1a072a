"""A broken or foreign file at a destination costs only itself, and what is missing there is shipped again."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.shipping.bucket import Bucket
from mcpproxy.shipping.folder import Folder
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.shipping.data_set import DAY, OPENED, documents, is_tidy, rows, written
from tests.mcpproxy.shipping.s3 import copied, environment

COUNT = 5
"""The number of captures; all but the last are of one day."""


class Lake:
    """A destination, and two machines that ship to it."""

    def __init__(self, home: Path, name: str, port: int | None) -> None:
        self.home = home
        self.name = name
        self.port = port
        self.environment = {} if port is None else environment(port)
        for key, value in self.environment.items():
            os.environ[key] = value
        self.shown = str(home / name) if port is None else f"s3://lake/{name}"
        self.there = Folder(home / name) if port is None else Bucket(self.shown)
        for number in range(COUNT):
            wall_ns = OPENED + (DAY if number == COUNT - 1 else 0)
            written(home / "captures", number, wall_ns, tables=4)

    def begin_with(self, files: Path) -> None:
        """Start with the files of another destination, to which these captures were shipped."""
        for path in sorted(files.rglob("*")):
            name = path.relative_to(files).as_posix()
            if path.is_file() and not name.startswith("."):
                self.there.put(name, path)

    def ship(self, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
        given = arguments or (self.home / "captures",)
        variables: Any = {"XDG_STATE_HOME": str(self.home)} | self.environment
        return mcpproxy("ship", self.shown, "--unredacted", *given, **variables)

    def shipped(self, *arguments: str | Path) -> str:
        done = self.ship(*arguments)
        assert (done.returncode, complaints(done)) == (0, b"")
        return done.stdout.decode()

    def refused(self, *arguments: str | Path) -> tuple[str, str]:
        """Ship, which must fail; returns stdout and the only line of stderr."""
        said, (line,) = self.broken(*arguments)
        return said, line

    def broken(self, *arguments: str | Path) -> tuple[str, list[str]]:
        """Ship, which must fail; returns stdout and the lines of stderr."""
        done = self.ship(*arguments)
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False), done.stderr
        return done.stdout.decode(), complaints(done).decode().splitlines()

    def manifest(self, number: int) -> Path:
        return self.home / self.name / f"_manifests/{number:032x}.json"

    def capture(self, number: int) -> Path:
        return self.home / f"captures/{number}.mcpcap"

    def files(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in self.there.entries(folder) if entry.name.endswith(("parquet", "json")))

    def here(self) -> Path:
        """Returns the destination as a folder."""
        if self.port is None:
            return self.home / self.name
        into = self.home / f"copy-{os.urandom(4).hex()}"
        into.mkdir()
        return copied(self.port, into, self.name)

    def cut(self, name: str) -> None:
        """Truncate a file to its first half."""
        stored = self.there.read(name)
        assert stored is not None
        self.there.write(name, stored.data[: len(stored.data) // 2])


@pytest.fixture(params=["directory", "S3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    port = request.getfixturevalue("s3") if request.param == "S3" else None
    for name in () if port is None else environment(port):
        monkeypatch.setenv(name, "")
    return Lake(tmp_path, f"lake-{os.urandom(4).hex()}", port)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A destination to which the captures are shipped; shipping them again for each test would take a second."""
    first = Lake(tmp_path_factory.mktemp("shipped"), "lake", None)
    first.shipped()
    return first.here()


@pytest.fixture(scope="module")
def compacted(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That destination, compacted."""
    first = Lake(tmp_path_factory.mktemp("compacted"), "lake", None)
    first.begin_with(shipped)
    first.shipped("--compact", first.home / "captures")
    return first.here()


@pytest.mark.costly("it ships five captures")
def test_a_manifest_that_is_not_ours_costs_its_capture(lake: Lake, shipped: Path) -> None:
    texts = (b"", b"{", b'{"format": 99}', b"[1]", b'{"format": 1, "files": []}')
    lake.begin_with(shipped)
    names = [f"_manifests/{number:032x}.json" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        lake.there.write(name, text)
    whole = written(lake.home / "captures", COUNT, tables=3)
    lake.shipped(whole)
    written(lake.home / "captures", COUNT + 1, tables=3)
    said, lines = lake.broken()
    assert "1 capture shipped, 1 unchanged" in said
    assert len(lines) == len(names)
    for name, text, line in zip(names, texts, lines, strict=True):
        assert f"{lake.shown}/{name}" in line
        stored = lake.there.read(name)
        assert (stored and stored.data) == text, name
        lake.there.delete(name)
    assert "5 captures shipped, 2 unchanged" in lake.shipped()
    assert "7 unchanged" in lake.shipped()


@pytest.mark.costly("it ships five captures four times")
def test_what_is_gone_or_cut_short_is_shipped_again(lake: Lake) -> None:
    lake.shipped("--raw", lake.home / "captures")
    expected = rows(lake.here())
    (frames,) = [name for name in lake.files("frames") if f"{0:032x}" in name]
    (sessions,) = [name for name in lake.files("sessions") if f"{1:032x}" in name]
    (raw,) = [entry.name for entry in lake.there.entries("raw") if f"{2:032x}" in entry.name]
    lake.there.delete(frames)
    lake.cut(sessions)
    lake.there.delete(raw)
    assert "3 captures shipped, 2 unchanged" in lake.shipped("--raw", lake.home / "captures")
    assert "5 unchanged" in lake.shipped("--raw", lake.home / "captures")
    here = lake.here()
    assert (rows(here), is_tidy(here)) == (expected, True)


@pytest.mark.costly("it ships five captures")
@pytest.mark.parametrize(
    ("lake", "how"),
    [
        ("directory", "gone"),
        ("S3", "cut"),
        pytest.param("directory", "cut", marks=pytest.mark.soak),
        pytest.param("S3", "gone", marks=pytest.mark.soak),
    ],
    indirect=["lake"],
)
def test_a_compacted_file_that_is_gone_is_made_good_by_each_machine(
    lake: Lake, how: str, shipped: Path, compacted: Path
) -> None:
    everything = shipped.parent / "captures"  # rows hold the paths of their captures
    expected = rows(shipped)
    lake.begin_with(compacted)
    (name,) = [name for name in lake.files("exchanges") if "compact-" in name]
    if how == "gone":
        lake.there.delete(name)
    else:
        lake.cut(name)
    # One machine has the first two captures, the other machine has the rest.
    one, other = ([everything / f"{number}.mcpcap" for number in some] for some in ((0, 1), (2, 3, 4)))
    assert "2 captures shipped" in lake.shipped(*one)
    assert "2 captures shipped, 1 unchanged" in lake.shipped(*other)
    if how == "cut":
        lake.there.delete(name)  # no manifest names it, and a compaction would delete it in a day
    here = lake.here()
    assert (rows(here), is_tidy(here)) == (expected, True)
    assert "5 unchanged" in lake.shipped(everything)
    assert "1 day compacted" in lake.shipped("--compact", everything)
    here = lake.here()
    assert (rows(here), is_tidy(here)) == (expected, True)


def test_a_broken_manifest_of_a_day_costs_that_day_and_is_told_once(lake: Lake, compacted: Path) -> None:
    everything = lake.home / "captures"
    lake.begin_with(compacted)
    (day,) = lake.files("_days")
    lake.there.write(day, b"not ours")
    said, line = lake.refused("--compact", everything)
    assert "0 captures shipped, 1 unchanged" in said
    assert f"{lake.shown}/{day}" in line
    assert [len(one["files"]) for one in documents(lake.here(), "_manifests")] == [4] * COUNT


def test_a_compaction_goes_on_without_a_capture_whose_manifest_is_broken(lake: Lake, shipped: Path) -> None:
    lake.begin_with(shipped)
    other = written(lake.home / "captures", 7, OPENED, tables=4)
    everything = lake.home / "captures"
    lake.shipped(everything)
    name = f"_manifests/{7:032x}.json"
    lake.there.write(name, b"{")
    said, line = lake.refused("--compact", everything)
    assert name in line
    assert "1 day compacted, 16 files into 4" in said
    assert [name for name in lake.files("captures") if f"{7:032x}" in name]
    lake.there.delete(name)
    assert "1 capture shipped" in lake.shipped(other)


def test_other_things_in_the_place_of_files_and_folders(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "lake", None)
    (tmp_path / f"lake/_manifests/{0:032x}.json").mkdir(parents=True)
    said, line = lake.refused()
    assert "4 captures shipped" in said
    assert f"{0:032x}.json: it is not a regular file; " in line
    last = written(tmp_path / "captures", 8, OPENED + 2 * DAY, tables=4)
    (tmp_path / "lake/captures/day=2026-11-20").write_bytes(b"a file")
    said, line = lake.refused(last, lake.capture(1))
    assert "0 captures shipped, 1 unchanged" in said
    assert "day=2026-11-20" in line


def change(path: Path, **members: Any) -> None:
    """Change members of a manifest; the text may contain values that only Python's JSON accepts."""
    path.write_text(json.dumps(json.loads(path.read_bytes()) | members))


def spoiled(lake: Lake, number: int, how: str) -> None:
    """Replace a manifest with something else."""
    path = lake.manifest(number)
    path.unlink()
    if how == "FIFO":
        os.mkfifo(path)
    elif how == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)


@pytest.mark.costly("it ships four captures, and spoils eight of nine manifests")
def test_one_broken_manifest_after_the_other_costs_its_capture_alone(tmp_path: Path, shipped: Path) -> None:
    lake = Lake(tmp_path, "lake", None)
    lake.begin_with(shipped)
    evil = tmp_path / "out/evil.json"
    evil.parent.mkdir()
    for number in range(COUNT, 9):
        written(lake.home / "captures", number, OPENED, tables=3)
    lake.shipped()
    far, state = "../../out/evil", json.loads(lake.manifest(2).read_bytes())["state"]
    change(lake.manifest(0), capture=far, replaced=[f"frames/day=2026-11-18/{0:032x}.parquet"])
    change(lake.manifest(1), day=far)
    change(lake.manifest(2), state=state | {"segments": [[1, float("inf")]]})
    change(lake.manifest(3), day="a\0b")
    change(lake.manifest(4), day="9" * 5000)
    spoiled(lake, 5, "FIFO")
    spoiled(lake, 6, "device")
    spoiled(lake, 7, "endless")
    evil.write_bytes(lake.manifest(8).read_bytes())
    before, there = evil.read_bytes(), lake.files("frames")
    written(lake.home / "captures", 9, OPENED, tables=3)
    said, lines = lake.broken()
    assert "1 capture shipped, 1 unchanged" in said
    assert [any(str(lake.manifest(number)) in line for line in lines) for number in range(9)] == [True] * 8 + [False]
    assert (evil.read_bytes(), lake.files("frames")) == (before, there)


@pytest.mark.costly("it ships five captures three times")
def test_keep_ignores_incomplete_manifests(tmp_path: Path) -> None:
    """Nor a manifest of a day; files that another manifest claims are not deleted either."""
    lake = Lake(tmp_path, "lake", None)
    everything = lake.home / "captures"
    lake.shipped()
    expected = rows(lake.here())
    files = [file["name"] for file in documents(lake.here(), "_manifests")[3]["files"]]
    day = files[0].split("day=")[1].partition("/")[0]
    nothing: tuple[Any, ...] = ([], {})
    for number, names in enumerate(nothing):
        for file in json.loads(lake.manifest(number).read_bytes())["files"]:
            lake.there.delete(file["name"])
        change(lake.manifest(number), files=names)
    change(lake.manifest(2), replaced=files)
    said, lines = lake.broken("--keep", "0s", lake.capture(0), lake.capture(1), lake.capture(2))
    assert "0 captures deleted here" in said
    assert len(lines) == 3
    for number in range(3):
        lake.manifest(number).unlink()
    assert "3 captures shipped, 2 unchanged" in lake.shipped()
    assert rows(lake.here()) == expected
    one = json.loads(lake.manifest(0).read_bytes())
    held = [{"capture": f"{0:032x}", "shipment": one["shipment"]}]
    lake.there.write(f"_days/{day}.json", json.dumps({"format": 1, "day": day, "captures": held, "files": []}).encode())
    said, line = lake.refused("--keep", "0s", everything)
    assert "1 capture deleted here" in said
    assert f"_days/{day}.json" in line
    assert sorted(path.name for path in everything.iterdir()) == [f"{number}.mcpcap" for number in range(4)]


@pytest.mark.costly("it ships five captures twice")
def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    """The destination itself may be a link."""
    for name in ("elsewhere", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "lake").symlink_to("real")
    lake = Lake(tmp_path, "lake", None)
    (tmp_path / "real/frames").symlink_to("../elsewhere")
    said, line = lake.refused()
    assert "0 captures shipped" in said
    assert f"{tmp_path}/lake/frames: it is a symbolic link" in line
    (tmp_path / "real/frames").unlink()
    lake.shipped()
    folder = tmp_path / "real" / Path(lake.files("frames")[0]).parent
    folder.rename(tmp_path / "elsewhere/day")
    folder.symlink_to(tmp_path / "elsewhere/day")
    there = sorted((tmp_path / "elsewhere").rglob("*"))
    said, line = lake.refused("--keep", "0s", "--compact", lake.home / "captures")
    assert "0 captures shipped, 1 unchanged" in said
    assert "1 capture deleted here" in said
    assert f"{folder.name}: it is a symbolic link" in line
    assert sorted((tmp_path / "elsewhere").rglob("*")) == there


@pytest.mark.costly("it ships three captures, and compacts two days")
def test_a_file_that_is_not_parquet_costs_the_compaction_of_its_day(tmp_path: Path, shipped: Path) -> None:
    lake = Lake(tmp_path, "lake", None)
    lake.begin_with(shipped)
    for number in range(COUNT, COUNT + 3):
        written(lake.home / "captures", number, OPENED + DAY, tables=3)
    lake.shipped()
    manifest = json.loads(lake.manifest(2).read_bytes())
    file = next(file for file in manifest["files"] if file["table"] == "frames")
    data = b"PAR1" + b"\xff" * 60 + b"PAR1"
    (lake.home / "lake" / file["name"]).write_bytes(data)
    file |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change(lake.manifest(2), files=manifest["files"])
    said, line = lake.refused("--compact", lake.home / "captures")
    assert "1 day compacted" in said
    assert f"cannot compact {lake.shown}/{file['name']}: " in line
    assert "private" not in line
    assert len(lake.files("_days")) == 1
