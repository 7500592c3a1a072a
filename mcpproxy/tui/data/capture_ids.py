"""Capture ids: finds the capture with an id, from the headers alone."""

from collections.abc import Iterable
from pathlib import Path

from captures.errors import CaptureError
from mcpproxy.tui.data.client_captures import header_of


def capture_with_id(id_: str, paths: Iterable[Path]) -> Path | None:
    """The first capture whose header has the id, or None if there is none. Reads files."""
    for path in paths:
        try:
            if header_of(path).get("capture") == id_:
                return path
        except (CaptureError, OSError):
            continue
    return None
