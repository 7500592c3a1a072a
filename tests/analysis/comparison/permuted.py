"""Captures that say the same in another order: the members of objects, and the items of lists whose order is free."""

import random
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

    It has the same name in another folder, and the same segments. Frames that break a rule of the envelope stay as they
    are: the order of duplicate members matters, for example.
    """
    chance = random.Random(seed)
    return sum(_write_segment(segment, folder / segment.name, chance, seed) for segment in segments(path))


def _write_segment(path: Path, target: Path, chance: random.Random, seed: int) -> int:
    lines, count = path.read_bytes().split(b"\n"), 0
    for position, line in enumerate(lines):
        record = decode(line, 0, orjson.loads) if line else None
        if record is None or record.rec != "frame" or "problem" in record.members or "parts" in record.members:
            continue
        raw = raw_bytes(record.members)
        try:
            value = orjson.loads(raw or b"")
        except ValueError:
            continue
        permuted = orjson.dumps(_permuted(value, chance, seed))
        changed = record.members | {"raw": permuted.decode(), "size": len(permuted)}
        middle = members(**{name: member for name, member in changed.items() if name not in _FIXED})
        lines[position] = seal(record.seq, record.t_ns, "frame", middle).rstrip(b"\n")
        count += permuted != raw
    target.write_bytes(b"\n".join(lines))
    return count


def _permuted(value: Any, chance: random.Random, seed: int, name: str = "") -> Any:
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {each: _permuted(value[each], chance, seed, each) for each in names}
    if isinstance(value, list):
        items = [_permuted(item, chance, seed) for item in value]
        # The same list has the same order wherever it is repeated: a list whose order changes is a finding.
        return sorted(items, key=lambda item: json_digest([seed, item])) if name in FREE_LISTS else items
    return value
