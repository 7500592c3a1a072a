"""Manifests: which files of a destination belong to the data set.

`_manifests/ID.json` names the files of one capture, and `_days/DAY.json` the files into which a compaction has merged a
day's captures. A capture that a day's manifest lists is read from the files of the day, and from its own manifest only
`raw`. The underscore hides both folders from readers that know Hive's layout.

Others may write at the destination too, so names in a manifest are accepted only where shipping itself could have put
them.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcpproxy.shipping.destination import Broken, Destination, Stored

FORMAT: Final = 1
RAW: Final = "raw"
"""What manifests call captures themselves in place of a table."""
DAYS: Final = "_days"
COMPACT: Final = "compact-"
"""How the names of a compacted day's files begin."""
_NAME: Final = re.compile(
    r"[a-z_]{1,40}/day=([0-9]{4}-[0-9]{2}-[0-9]{2}|__HIVE_DEFAULT_PARTITION__)"
    r"/([0-9a-f]{32}(-[0-9a-f]{16})?(\.[0-9]{1,9})?\.mcpcap|[0-9a-f]{32}(-[0-9a-f]{16})?\.parquet"
    rf"|{COMPACT}[0-9a-f]{{32}}\.parquet)"
)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the data set."""

    table: str
    """Its table; `raw` for a segment of the capture itself."""
    name: str
    size: int
    rows: int | None
    """None for `raw`."""
    sha256: str


@dataclass(frozen=True, slots=True)
class State:
    """What was shipped of a capture. The same state is never shipped twice."""

    segments: tuple[tuple[int, int], ...]
    """Number and bytes of each segment."""
    last: int | None
    """Number of the last record; None if the end of the capture is not a record."""
    redacted: bool
    findings: bool
    raw: bool
    machine: str | None = None
    """The machine name given with `--machine`; None if there was none."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The shipment of one capture."""

    capture: str
    shipment: str
    """Distinguishes the shipments of a capture, so that a day's manifest can say which one it holds."""
    day: str
    state: State
    is_damaged: bool
    """Whether the capture is damaged, so that the files hold only what is intact."""
    files: tuple[File, ...]
    replaced: tuple[str, ...] = ()
    """The names of an earlier shipment's files that may still be there."""

    def encoded(self) -> bytes:
        """The text of the manifest."""
        return _encoded({"format": FORMAT, **asdict(self)})


@dataclass(frozen=True, slots=True)
class Day:
    """The captures of one day, together in one file for each table."""

    day: str
    captures: dict[str, str]
    """The shipment of each capture in the files, by its id."""
    files: tuple[File, ...]

    def has_another(self, capture: str, shipment: str) -> bool:
        """Whether the files hold another shipment of a capture than this one."""
        return self.captures.get(capture, shipment) != shipment

    def encoded(self) -> bytes:
        """The text of the manifest."""
        held = [{"capture": capture, "shipment": self.captures[capture]} for capture in sorted(self.captures)]
        return _encoded(
            {"format": FORMAT, "day": self.day, "captures": held, "files": [asdict(file) for file in self.files]}
        )


def manifest_name(capture: str) -> str:
    """The name of a capture's manifest."""
    return f"_manifests/{capture}.json"


def day_name(day: str) -> str:
    """The name of a day's manifest."""
    return f"{DAYS}/{day}.json"


def manifest_at(capture: str, to: Destination) -> Manifest | None:
    """The manifest of a capture at a destination, if there is one.

    Raises:
        Broken: it cannot be read, or is not a manifest of a version that we know.
    """
    stored = to.read(manifest_name(capture))
    return None if stored is None else manifest_of(stored.data, f"{to.shown}/{manifest_name(capture)}")


def day_at(day: str, to: Destination) -> tuple[Day | None, Stored | None]:
    """The manifest of a day at a destination, if there is one, and as it was read, for `replace`.

    Raises:
        Broken: it cannot be read, or is not a manifest of a version that we know.
    """
    stored = to.read(day_name(day))
    return (None if stored is None else day_of(stored.data, f"{to.shown}/{day_name(day)}")), stored


def manifest_of(data: bytes, where: str) -> Manifest:
    """Parse a capture's manifest; `where` is what an error calls it.

    Raises:
        Broken: it is not a manifest of a version that we know.
    """
    values = _decoded(data, where)
    try:
        state = values["state"]
        segments = tuple((int(number), int(size)) for number, size in state["segments"])
        return Manifest(
            capture=str(values["capture"]),
            shipment=str(values["shipment"]),
            day=str(values["day"]),
            state=State(
                segments, state["last"], state["redacted"], state["findings"], state["raw"], state.get("machine")
            ),
            is_damaged=bool(values["is_damaged"]),
            files=_files(values),
            replaced=_checked(values["replaced"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(where) from error


def day_of(data: bytes, where: str) -> Day:
    """Parse a day's manifest; `where` is what an error calls it.

    Raises:
        Broken: it is not a manifest of a version that we know.
    """
    values = _decoded(data, where)
    try:
        captures = {str(held["capture"]): str(held["shipment"]) for held in values["captures"]}
        return Day(str(values["day"]), captures, _files(values))
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(where) from error


def _files(values: dict[str, Any]) -> tuple[File, ...]:
    files = tuple(
        File(str(file["table"]), str(file["name"]), int(file["size"]), file["rows"], str(file["sha256"]))
        for file in values["files"]
    )
    _checked(file.name for file in files)
    if not all(file.name.startswith(f"{file.table}/") for file in files):
        raise ValueError
    return files


def _checked(names: Iterable[object]) -> tuple[str, ...]:
    given = tuple(map(str, names))
    if not all(map(_NAME.fullmatch, given)):
        raise ValueError
    return given


def _encoded(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


def _decoded(data: bytes, where: str) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise _unknown(where) from None
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise _unknown(where)
    if values["format"] > FORMAT:
        raise Broken(f"cannot read {where}: a later version of mcpproxy wrote it; update mcpproxy")
    return values


def _unknown(where: str) -> Broken:
    return Broken(f"cannot read {where}: it is not a manifest of mcpproxy; move it away, and ship again")
