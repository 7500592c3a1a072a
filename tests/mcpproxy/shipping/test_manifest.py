"""A document that `ship` could not have written is not a manifest."""

import json
from typing import Any

import pytest

from mcpproxy.shipping.destination import BrokenFile
from mcpproxy.shipping.manifest import (
    DayManifest,
    Manifest,
    ShippedFile,
    ShippedState,
    parse_day_manifest,
    parse_manifest,
)
from tests.rows import row

ID, OTHER, DAY = "ab" * 16, "cd" * 16, "2026-11-21"
OWN = ShippedFile("captures", f"captures/day={DAY}/{ID}.parquet", 5, 1, "0" * 64)
RAW = ShippedFile("raw", f"raw/day={DAY}/{ID}.2.mcpcap", 5, None, "0" * 64)
EARLIER = f"frames/day=2026-11-20/{ID}-{'9' * 16}.parquet"
MANIFEST = Manifest(
    ID, "e" * 16, DAY, ShippedState(((1, 70),), 3, True, False, True, "here"), False, (OWN, RAW), (EARLIER,)
).encoded()
COMPACTED = ShippedFile("captures", f"captures/day={DAY}/compact-{ID}.parquet", 5, 1, "0" * 64)
OF_DAY = DayManifest(DAY, {ID: "e" * 16}, (COMPACTED,)).encoded()
FAR = "../../out/evil"
TEXTS: tuple[Any, ...] = (FAR, "a\0b", "\ud800", "9" * 5000, "", 5, None, [], {})
NUMBERS: tuple[Any, ...] = (float("inf"), float("nan"), -1, 1.5, 1 << 64, True, "1", [], {})


def changed(document: bytes, value: Any, *path: Any) -> bytes:
    """Returns the document with another value at a path."""
    values = json.loads(document)
    place = values
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(values).encode()


def test_what_is_not_a_manifest_is_refused() -> None:
    for text in (b"", b"[]", b"{}", b'{"format": 1}', b'{"format": "1"}', b"[" * 100_000):
        with pytest.raises(BrokenFile, match="not a manifest"):
            parse_manifest(text, ID, "it")
        with pytest.raises(BrokenFile, match="not a manifest"):
            parse_day_manifest(text, DAY, "it")
    with pytest.raises(BrokenFile, match="update mcpproxy"):
        parse_manifest(b'{"format": 2}', ID, "it")


def test_a_manifest_says_what_ship_could_have_written() -> None:
    assert parse_manifest(MANIFEST, ID, "it").encoded() == MANIFEST
    with row("of another capture"), pytest.raises(BrokenFile, match="not a manifest"):
        parse_manifest(MANIFEST, OTHER, "it")
    another = f"captures/day={DAY}/{OTHER}.parquet"
    wrong: list[tuple[Any, ...]] = [
        *((text, place) for text in (*TEXTS, OTHER) for place in ("capture", "day", "shipment")),
        *((number, "state", "segments", 0, at) for number in NUMBERS for at in (0, 1)),
        *((number, "state", "last") for number in NUMBERS),
        *((number, "files", 0, member) for number in NUMBERS for member in ("size", "rows")),
        *((text, "files", 0, member) for text in TEXTS for member in ("table", "name", "sha256")),
        *(([], "files"), ({}, "files"), (None, "files"), ([RAW.name], "files")),
        (another, "files", 0, "name"),
        (OWN.name.replace("21", "22"), "files", 0, "name"),
        (COMPACTED.name, "files", 0, "name"),
        (RAW.name.replace("mcpcap", "parquet"), "files", 1, "name"),
        ("frames", "files", 0, "table"),
        (False, "state", "raw"),
        *(([text], "replaced") for text in (*TEXTS, another, COMPACTED.name, OWN.name)),
        *((value, *place) for value in (1, "yes", None) for place in (("is_damaged",), ("state", "redacted"))),
    ]
    for value, *place in wrong:
        with row(value, *place), pytest.raises(BrokenFile, match="not a manifest"):
            parse_manifest(changed(MANIFEST, value, *place), ID, "it")


def test_a_manifest_of_a_day_says_what_ship_could_have_written() -> None:
    assert parse_day_manifest(OF_DAY, DAY, "it").encoded() == OF_DAY
    assert parse_day_manifest(DayManifest(DAY, {}, ()).encoded(), DAY, "it").files == ()
    with row("of another day"), pytest.raises(BrokenFile, match="not a manifest"):
        parse_day_manifest(OF_DAY, "2026-11-22", "it")
    wrong: list[tuple[Any, ...]] = [
        *((text, "day") for text in TEXTS),
        *((text, "captures", 0, member) for text in TEXTS for member in ("capture", "shipment")),
        *((text, "files", 0, member) for text in (*TEXTS, OWN.name) for member in ("name", "table")),
        *((number, "files", 0, "size") for number in NUMBERS),
        *(([], "files"), ({}, "files")),
        (COMPACTED.name.replace("21", "22"), "files", 0, "name"),
        (COMPACTED.name.replace("captures/", "frames/"), "files", 0, "name"),
    ]
    for value, *place in wrong:
        with row(value, *place), pytest.raises(BrokenFile, match="not a manifest"):
            parse_day_manifest(changed(OF_DAY, value, *place), DAY, "it")
