"""The header of every capture: where, when and by which program it was recorded.

This module is on the path of `mcpproxy run`, so it imports next to nothing.
"""

from __future__ import annotations

import os
import time

from captures.record import members
from captures.versions import FORMAT_VERSION
from mcpproxy import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.recorder.machine_name import MachineName


class CaptureHeader:
    """The header of every segment of one capture."""

    def __init__(
        self,
        transport: str,
        wall_ns: int,
        redactions: list[str],
        opt_outs: list[str],
        machine: MachineName | None,
        **fields: object,
    ) -> None:
        """Compose the members: `fields`, which depend on the transport, and those common to all captures."""
        name, is_chosen = machine or (None, False)
        self._capture_id = os.urandom(16).hex()
        self._transport = transport
        self._fields = fields | {
            "observed_start": True,
            "wall_ns": wall_ns,
            "mono_ns": time.monotonic_ns(),
            "boot_id": _boot_id(),
            "machine": name,
            "machine_chosen": True if is_chosen else None,
            "parents": _parents(),
            "tool": f"mcpproxy {__version__}",
            "redactions": redactions,
            "opt_outs": opt_outs,
        }

    def segment_members(self, segment: int) -> bytes:
        """Returns the members of the header of a segment."""
        segment_fields = {
            "format": FORMAT_VERSION,
            "capture": self._capture_id,
            "segment": segment,
            "transport": self._transport,
        }
        return members(**segment_fields, **self._fields)


def working_directory() -> bytes | None:
    """Returns the current directory, or None if it cannot be read."""
    try:
        return os.getcwdb()
    except OSError:  # it was deleted, which does not stop a server from running
        return None


def _boot_id() -> str | None:
    try:
        # In binary mode, because text mode would load a codec, which takes longer than everything else here.
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip().decode("ascii")
    except OSError:
        return None


def _parents() -> list[dict[str, object]]:
    """Returns the ancestors of this process, nearest first, as far as the system shows them; one is the client."""
    parents: list[dict[str, object]] = []
    pid = os.getppid()
    while pid > 0 and len(parents) < 16:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{pid}/comm", "rb") as file:
                exe = file.read().strip().decode("utf-8", "backslashreplace")
        except OSError:
            break
        parents.append({"pid": pid, "start": int(fields[19]), "exe": exe})
        pid = int(fields[1])
    return parents
