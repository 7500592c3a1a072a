"""Tally: how many findings a capture has, for a list that has no time to check: kept beside its summary.

Like a summary it says nothing that the capture does not say, and may be lost, damaged or old at any time. It is true as
long as the capture's files and all the modules that judge them are the same: with another rule it is counted anew.
"""

import json
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final, NamedTuple

from analysis import summary
from analysis.rules.finding import Level

_SUFFIX: Final = ".tally"
_LARGEST: Final = 16 << 10


class Tally(NamedTuple):
    """Findings by level."""

    notes: int = 0
    warnings: int = 0
    errors: int = 0

    @property
    def wrong(self) -> int:
        """Without the notes, which tell of what is legal."""
        return self.warnings + self.errors

    def plus(self, level: Level, count: int = 1) -> "Tally":
        """With so many more."""
        counts = list(self)
        counts[level - 1] += count
        return Tally(*counts)


def cached(path: Path) -> Tally | None:
    """What was kept of a capture, where it is still true."""
    file, key = summary.file_of(path, _SUFFIX), key_of(path)
    if file is None or key is None:
        return None
    try:
        with file.open("rb") as opened:
            kept = json.loads(opened.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    counts = kept.get("tally") if isinstance(kept, dict) and kept.get("key") == key else None
    is_whole = isinstance(counts, list) and len(counts) == 3 and all(type(n) is int and n >= 0 for n in counts)
    return Tally(*counts) if is_whole and counts is not None else None


def keep(path: Path, key: str, tally: Tally) -> bool:
    """Keep a tally, where that can be and the capture is still what `key` says; whether it is kept now."""
    file = summary.file_of(path, _SUFFIX)
    return file is not None and key_of(path) == key and summary.put(file, {"key": key, "tally": tally})


def key_of(path: Path) -> str | None:
    """All that a tally depends on; None where the files cannot be looked at, or are being written."""
    key = summary.key_of(path)
    return None if key is None else f"{version()}\n{key}"


@cache
def version() -> str:
    """A hash of the rules, and of the shapes that they compare with."""
    digest = blake2b(digest_size=16)
    analysis = Path(__file__).parents[1]
    for folder in ("checking", "json_schema", "rules", "shapes"):
        for source in sorted((*(analysis / folder).rglob("*.py"), *(analysis / folder).rglob("*.json"))):
            digest.update(str(source.relative_to(analysis)).encode() + b"\0" + source.read_bytes())
    with suppress(PackageNotFoundError):
        digest.update(version_of("mcp-types").encode())
    return digest.hexdigest()
