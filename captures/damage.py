"""Damage: bytes of a capture that are not a record."""

from pathlib import Path
from typing import Final, Literal, NamedTuple

Cause = Literal["torn", "corrupt", "overlong", "version", "foreign"]

_CAUSE_TEXTS: Final[dict[Cause, str]] = {
    "torn": "an unfinished record at the end",
    "corrupt": "damaged",
    "overlong": "a line above 8 MiB",
    "version": "a segment in a format unknown here",
    "foreign": "a segment of another capture",
}


class Damage(NamedTuple):
    """Bytes of a capture that are not a record. Adjacent damage is merged: a file without records is one item."""

    path: Path
    """The segment's file."""
    offset: int
    """Offset of the first of the bytes."""
    size: int
    """How many bytes; 0 if only the last LF is missing."""
    cause: Cause
    """The cause: `torn` (the end of a file that was cut, normal after a kill), `corrupt`, `overlong` (above 8 MiB).

    `version` (an unknown format) and `foreign` (another capture) apply to whole segments.
    """

    def __str__(self) -> str:
        """Returns one line for users."""
        if not self.size:
            return f"{self.path}: the last record, up to offset {self.offset}, has no newline"
        unit = "byte" if self.size == 1 else "bytes"
        return f"{self.path}: {self.size} {unit} at offset {self.offset}: {_CAUSE_TEXTS[self.cause]}"
