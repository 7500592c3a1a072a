"""Captures that say the same in another order: the members of objects, and the items of lists whose order is free."""

import json
from pathlib import Path
from typing import Any, Final

import orjson

from analysis.comparison.canonical import json_digest
from captures.listing import segments
from captures.record import decode, members, raw_bytes, seal

FREE_LISTS: Final = ("tools", "prompts", "resources", "resourceTemplates", "required", "enum")
"""The members whose items may come in any order."""
_FIXED: Final = ("seq", "rec", "t_ns", "crc")


def write_permuted(path: Path, folder: Path, seed: int) -> int:
    """Write a capture that differs from another one in the order of members and items; returns how many frames do.

    It has the same name in another folder, and the same segments. Equal values stay equal. Frames that break a rule of
    the envelope, or have an object with two members of one name, stay as they are.
    """
    return sum(_write_segment(segment, folder / segment.name, seed) for segment in segments(path))


def _write_segment(path: Path, target: Path, seed: int) -> int:
    lines, count = path.read_bytes().split(b"\n"), 0
    for position, line in enumerate(lines):
        record = decode(line, 0, orjson.loads) if line else None
        if record is None or record.rec != "frame" or "problem" in record.members or "parts" in record.members:
            continue
        raw = raw_bytes(record.members)
        try:
            value = json.loads(raw or b"", object_pairs_hook=_object)
        except ValueError:
            continue
        permuted = json.dumps(_permuted(value, seed)).encode()
        changed = record.members | {"raw": permuted.decode(), "size": len(permuted)}
        middle = members(**{name: member for name, member in changed.items() if name not in _FIXED})
        lines[position] = seal(record.seq, record.t_ns, "frame", middle).rstrip(b"\n")
        count += permuted != raw
    target.write_bytes(b"\n".join(lines))
    return count


def _permuted(value: Any, seed: int, name: str = "") -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda each: json_digest([seed, each]))
        return {each: _permuted(value[each], seed, each) for each in names}
    if isinstance(value, list):
        items = [_permuted(item, seed) for item in value]
        return sorted(items, key=lambda item: json_digest([seed, item])) if name in FREE_LISTS else items
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(value := dict(pairs)) < len(pairs):
        raise ValueError("two members of one name")
    return value
