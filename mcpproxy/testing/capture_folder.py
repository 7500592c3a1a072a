"""The folder of a test's captures: temporary, unless the caller chose one."""

import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import Final

from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import find_captures, segments
from captures.reader import Capture

CLOSE_S: Final = 5.0
"""How long to wait for a recorder whose client has gone to close its capture."""
_POLL_S: Final = 0.01


class CaptureFolder:
    """A folder into which recorders write captures."""

    def __init__(self, path: Path | None = None) -> None:
        """Create the folder.

        Args:
            path: the folder; None for a temporary one, which is deleted once nothing refers to this object.
        """
        self._deletion: weakref.finalize[..., CaptureFolder] | None = None
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="mcpproxy-"))
            self._deletion = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path.resolve()
        """The folder."""

    def keep(self) -> None:
        """Keep the captures for the user, because a test failed."""
        if self._deletion is not None:
            self._deletion.detach()

    @property
    def captures(self) -> list[Path]:
        """The captures so far, in the order in which they were opened."""
        paths = [path for path in find_captures(self.path) if path.parent == self.path]
        return sorted(paths, key=_opened_ns)

    def wait_until_closed(self) -> bool:
        """Wait until no recorder is writing; returns False if one still is after `CLOSE_S`."""
        deadline_s = time.monotonic() + CLOSE_S
        while any(is_live(segments(path)[-1]) for path in self.captures):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True


def _opened_ns(path: Path) -> int:
    try:
        wall_ns = Capture(path).header.members.get("wall_ns")
    except CaptureError:
        return 0  # its recorder has not written the header yet
    return wall_ns if type(wall_ns) is int else 0
