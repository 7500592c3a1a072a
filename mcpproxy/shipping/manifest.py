"""Manifests: which files of a destination belong to the data set.

`_manifests/ID.json` names the files of one capture, and `_days/DAY.json` the files into which a compaction has merged a
day's captures. A capture that a day's manifest lists is read from the files of the day, and from its own manifest only
`raw`. The underscore hides both folders from readers that know Hive's layout.

Others may write at the destination too. So a manifest counts only if `ship` could have written it: it names only files
of its own capture or day, including the file with its rows of the table `captures`.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from analysis.store.table_export import UNKNOWN_DAY
from mcpproxy.shipping.destination import BrokenFile, Destination, StoredContent

FORMAT_VERSION: Final = 1
RAW: Final = "raw"
"""The name in manifests, in place of a table's, for the files of the captures themselves."""
DAYS_FOLDER: Final = "_days"
CAPTURES_TABLE: Final = "captures"
"""The table in which every capture has a row."""
COMPACT_PREFIX: Final = "compact-"
"""The prefix of the names of a compacted day's files."""
MAX_COMPACTED_CAPTURES: Final = 100_000
"""The maximum number of captures in a compacted day, so that its manifest stays far below `MAX_SMALL_FILE_BYTES`."""
_ID: Final = "[0-9a-f]{32}"
_SHIPMENT: Final = "[0-9a-f]{16}"
_DAY: Final = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}|{UNKNOWN_DAY}"
_NAME: Final = re.compile(
    rf"(?P<table>[a-z_]{{1,40}})/day=(?P<day>{_DAY})/"
    rf"((?P<capture>{_ID})(-{_SHIPMENT})?((?P<raw>(\.[0-9]{{1,9}})?\.mcpcap)|\.parquet)|{COMPACT_PREFIX}{_ID}\.parquet)"
)


class FileName(NamedTuple):
    """The parts of a file's name."""

    table: str
    day: str
    capture: str | None
    """The id of its capture; None for a file of a compacted day."""


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file of the data set."""

    table: str
    """The table of the file; `raw` for a segment of the capture itself."""
    name: str
    size: int
    rows: int | None
    """The number of rows; None for `raw`."""
    sha256: str


@dataclass(frozen=True, slots=True)
class ShippedState:
    """The state in which a capture was shipped. The same state is never shipped twice."""

    segments: tuple[tuple[int, int], ...]
    """The number of each segment, and its size in bytes."""
    last: int | None
    """The number of the last record; None if the end of the capture is not a record."""
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
    """An id that distinguishes the shipments of a capture, so that a day's manifest can say which one it contains."""
    day: str
    state: ShippedState
    is_damaged: bool
    """Whether the capture is damaged, and the files contain only its intact part."""
    files: tuple[ShippedFile, ...]
    replaced: tuple[str, ...] = ()
    """The names of an earlier shipment's files that may still be there."""

    def encoded(self) -> bytes:
        """The text of the manifest."""
        return _encoded({"format": FORMAT_VERSION, **asdict(self)})


@dataclass(frozen=True, slots=True)
class DayManifest:
    """The captures of one day, together in one file for each table."""

    day: str
    captures: dict[str, str]
    """The shipment of each capture in the files, by its id."""
    files: tuple[ShippedFile, ...]

    def has_other_shipment(self, capture: str, shipment: str) -> bool:
        """Whether the files contain a different shipment of a capture."""
        return self.captures.get(capture, shipment) != shipment

    def encoded(self) -> bytes:
        """The text of the manifest."""
        shipments = [{"capture": capture, "shipment": self.captures[capture]} for capture in sorted(self.captures)]
        return _encoded(
            {
                "format": FORMAT_VERSION,
                "day": self.day,
                "captures": shipments,
                "files": [asdict(file) for file in self.files],
            }
        )


def parse_name(text: str) -> FileName | None:
    """The parts of a file's name, or None if `ship` gives no file such a name."""
    name = _NAME.fullmatch(text)
    if name is None or (name["table"] == RAW) != (name["raw"] is not None):
        return None
    return FileName(name["table"], name["day"], name["capture"])


def manifest_name(capture: str) -> str:
    """The name of a capture's manifest."""
    return f"_manifests/{capture}.json"


def day_name(day: str) -> str:
    """The name of a day's manifest."""
    return f"{DAYS_FOLDER}/{day}.json"


def read_manifest(capture: str, destination: Destination) -> Manifest | None:
    """The manifest of a capture at a destination, if there is one.

    Raises:
        BrokenFile: it cannot be read, or is not a manifest of this capture in a known version.
    """
    stored_content = destination.read(manifest_name(capture))
    return (
        None
        if stored_content is None
        else parse_manifest(stored_content.data, capture, f"{destination.display_name}/{manifest_name(capture)}")
    )


def read_day_manifest(day: str, destination: Destination) -> tuple[DayManifest | None, StoredContent | None]:
    """The manifest of a day at a destination, if there is one, and its content as read, for `replace`.

    Raises:
        BrokenFile: it cannot be read, or is not a manifest of this day in a known version.
    """
    stored_content = destination.read(day_name(day))
    return (
        None
        if stored_content is None
        else parse_day_manifest(stored_content.data, day, f"{destination.display_name}/{day_name(day)}")
    ), stored_content


def parse_manifest(data: bytes, capture: str, location: str) -> Manifest:
    """Parse the manifest of a capture; `location` names it in errors.

    Raises:
        BrokenFile: it is not a manifest of this capture in a known version.
    """
    values = _decoded(data, location)
    try:
        day = _text(values["day"], _DAY)
        state = _state(values["state"])
        files = _files(values["files"])
        replaced = tuple(_text(name) for name in values["replaced"])
        names = [file.name for file in files]
        if (
            _text(values["capture"], _ID) != capture
            or any(parse_name(name) != (file.table, day, capture) for name, file in zip(names, files, strict=True))
            or any((name := parse_name(text)) is None or name.capture != capture for text in replaced)
            or not {*names}.isdisjoint(replaced)
            or any(file.table == RAW for file in files) != state.raw
            or all(file.table != CAPTURES_TABLE for file in files)
        ):
            raise ValueError
        shipment = _text(values["shipment"], _SHIPMENT)
        return Manifest(capture, shipment, day, state, _flag(values["is_damaged"]), files, replaced)
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown_manifest_error(location) from error


def parse_day_manifest(data: bytes, day: str, location: str) -> DayManifest:
    """Parse the manifest of a day; `location` names it in errors.

    Raises:
        BrokenFile: it is not a manifest of this day in a known version.
    """
    values = _decoded(data, location)
    try:
        captures = {_text(entry["capture"], _ID): _text(entry["shipment"], _SHIPMENT) for entry in values["captures"]}
        files = _files(values["files"])
        if (
            _text(values["day"], _DAY) != day
            or any(parse_name(file.name) != (file.table, day, None) for file in files)
            or (captures and all(file.table != CAPTURES_TABLE for file in files))
        ):
            raise ValueError
        return DayManifest(day, captures, files)
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown_manifest_error(location) from error


def _state(values: dict[str, Any]) -> ShippedState:
    return ShippedState(
        segments=tuple((_count(number), _count(size)) for number, size in values["segments"]),
        last=None if values["last"] is None else _count(values["last"]),
        redacted=_flag(values["redacted"]),
        findings=_flag(values["findings"]),
        raw=_flag(values["raw"]),
        machine=None if values.get("machine") is None else _text(values["machine"]),
    )


def _files(values: list[dict[str, Any]]) -> tuple[ShippedFile, ...]:
    return tuple(
        ShippedFile(
            table=_text(file["table"]),
            name=_text(file["name"]),
            size=_count(file["size"]),
            rows=None if file["table"] == RAW else _count(file["rows"]),
            sha256=_text(file["sha256"], "[0-9a-f]{64}"),
        )
        for file in values
    )


def _text(value: object, pattern: str = "(?s:.*)") -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _encoded(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


def _decoded(data: bytes, location: str) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise _unknown_manifest_error(location) from None
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise _unknown_manifest_error(location)
    if values["format"] > FORMAT_VERSION:
        raise BrokenFile(f"cannot read {location}: a later version of mcpproxy wrote it; update mcpproxy")
    return values


def _unknown_manifest_error(location: str) -> BrokenFile:
    return BrokenFile(f"cannot read {location}: it is not a manifest of mcpproxy; move it away, and ship again")
