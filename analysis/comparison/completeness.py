"""Notes in what way a capture is not complete: what its records say of that, apart from its messages."""

import re
from pathlib import Path
from typing import Any, Final

from analysis.reading import Item
from captures.damage import Damage
from captures.integrity import Inspection, inspect_file
from captures.record import Record

_SIGNAL: Final = re.compile(r"SIG[A-Z0-9+]{1,16}")


class Completeness:
    """What one capture lacks, noted record by record."""

    def __init__(self, path: Path) -> None:
        """Begin a capture.

        Args:
            path: the capture; it is read once more if the numbers of its records are not consecutive.
        """
        self._path = path
        self._next_seq = 0
        self._is_consecutive = True
        self.torn_count = 0
        """How many records are unfinished, at the end of the capture or of a segment."""
        self.server_end = ""
        """How the server's process ended, as a clause; empty if no record says so."""

    def on_record(self, record: Item | None) -> None:
        """Note the next record of the capture; None if the step of the reading has none."""
        if record is None:
            return
        if isinstance(record, Damage):
            self.torn_count += record.cause == "torn"
            return
        if record.seq != self._next_seq:
            self._is_consecutive = False
        self._next_seq = record.seq + 1
        if (
            isinstance(record, Record)
            and record.rec == "process"
            and record.members.get("event") in ("ended", "failed")
        ):
            self.server_end = _process_end(record.members)

    def inspection(self) -> Inspection | None:
        """Returns what `mcpproxy verify` finds in the capture; None if no record can be missing or repeated.

        Raises:
            CaptureError: the capture can no longer be read.
        """
        return None if self._is_consecutive else inspect_file(self._path)


def _process_end(members: dict[str, Any]) -> str:
    """Returns how the process ended; captures are untrusted, so its members may be anything."""
    if members["event"] == "failed":
        return "the server could not be run"
    status, signal = members.get("status"), members.get("signal")
    if type(status) is int and abs(status) < 1 << 32:
        return f"the server exited with {status}"
    if isinstance(signal, str) and _SIGNAL.fullmatch(signal):
        return f"{signal} ended the server"
    return "the server ended"
