"""Marks: the user's marks and notes on a capture, in a small file next to it; the capture itself never changes.

`NAME.marks.json` next to `NAME.mcpcap`, mode 0600: `{"marks": 1, "capture": ID, "rows": [{"seq": N, "note": "…"}, …]}`.
It names the capture by its id and rows by their numbers, so it stays valid when the ring deletes segments. It is read
again before each change and replaced as a whole (by a rename), so two windows can mark at the same time. A file that
cannot be parsed is left alone.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from captures.listing import first_segment
from captures.paths import SUFFIX

FORMAT_VERSION: Final = 1
MARKS_SUFFIX: Final = ".marks.json"
MAX_MARKS_FILE_BYTES: Final = 4 << 20
"""The maximum size of the file, in bytes."""
MAX_MARKS: Final = 10_000
"""The maximum number of marked rows."""
MAX_NOTE_CHARS: Final = 1000
"""The maximum length of a note, in characters."""


class MarkError(Exception):
    """A mark could not be read or written; the message says why."""


def marks_path(capture: Path) -> Path:
    """The path of a capture's marks, from any of its segments."""
    first_file = first_segment(capture)
    return first_file.with_name(first_file.name.removesuffix(SUFFIX) + MARKS_SUFFIX)


class Marks:
    """The marks of one capture."""

    def __init__(self, capture: Path, id_: str) -> None:
        """Start without marks: `load` reads them.

        Args:
            capture: the path of the capture.
            id_: the id of the capture, from its header.
        """
        self.path = marks_path(capture)
        self.notes: dict[int, str] = {}
        """The note of each marked row, by its number; empty for a mark without a note. The dictionary is never changed,
        only replaced as a whole."""
        self._id = id_

    def load(self) -> None:
        """Read the file.

        Raises:
            CannotMark: the file is not a file of marks, belongs to another capture, or cannot be read.
        """
        self.notes = self._read()

    def toggle(self, seq: int) -> bool:
        """Mark a row, or remove its mark unless it has a note; returns whether it is marked now.

        Raises:
            CannotMark: the mark could not be written; nothing has changed.
        """

        def toggle_mark(notes: dict[int, str]) -> None:
            if seq not in notes:
                notes[seq] = ""
            elif not notes[seq]:
                del notes[seq]

        self._change(toggle_mark)
        return seq in self.notes

    def set_note(self, seq: int, text: str) -> None:
        """Mark a row with a note; an empty note removes an existing note, and the mark with it.

        Raises:
            CannotMark: the mark could not be written; nothing has changed.
        """

        def put_note(notes: dict[int, str]) -> None:
            old_note = notes.pop(seq, "")
            if text.strip() or not old_note:
                notes[seq] = text.strip()[:MAX_NOTE_CHARS]

        self._change(put_note)

    def next_after(self, seq: int) -> int | None:
        """The first marked row after `seq`, wrapping to the start; returns None if no row is marked."""
        return min(self.notes, key=lambda marked: (marked <= seq, marked), default=None)

    def _change(self, change: Callable[[dict[int, str]], None]) -> None:
        notes = self._read()
        change(notes)
        if len(notes) > MAX_MARKS:
            raise MarkError(f"no more than {MAX_MARKS:,} rows can be marked")
        self._write(notes)
        self.notes = notes

    def _read(self) -> dict[int, str]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._error("read", error) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise MarkError(f"{self.path.name} is not a regular file")
        with os.fdopen(fd, "rb") as file:
            try:
                data = file.read(MAX_MARKS_FILE_BYTES + 1)
            except OSError as error:
                raise self._error("read", error) from error
        try:
            document: Any = orjson.loads(data) if len(data) <= MAX_MARKS_FILE_BYTES else None
            if document["marks"] != FORMAT_VERSION:
                raise MarkError(f"{self.path.name} was written by a newer version of mcpproxy")
            if document["capture"] != self._id:
                raise MarkError(f"{self.path.name} belongs to another capture")
            return {
                row["seq"]: str(row.get("note", ""))[:MAX_NOTE_CHARS]
                for row in document["rows"]
                if type(row["seq"]) is int
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MarkError(f"{self.path.name} is not a file of marks; move it away to mark rows") from error

    def _write(self, notes: dict[int, str]) -> None:
        rows = [{"seq": seq, "note": note} if note else {"seq": seq} for seq, note in sorted(notes.items())]
        try:
            if not rows:
                self.path.unlink(missing_ok=True)
                return
            data = orjson.dumps(
                {"marks": FORMAT_VERSION, "capture": self._id, "rows": rows}, option=orjson.OPT_INDENT_2
            )
            fd, name = tempfile.mkstemp(prefix=".marks-", dir=self.path.parent)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data + b"\n")
                    file.flush()
                    os.fsync(fd)
                Path(name).replace(self.path)
            except BaseException:
                with suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            raise self._error("keep marks in", error) from error
        except orjson.JSONEncodeError as error:
            raise MarkError("a note must be valid Unicode") from error

    def _error(self, verb: str, error: OSError) -> MarkError:
        if error.errno == errno.ELOOP:
            return MarkError(f"{self.path.name} is a symbolic link")
        return MarkError(f"cannot {verb} {self.path.name}: {error.strerror}")
