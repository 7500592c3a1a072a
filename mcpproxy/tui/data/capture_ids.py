"""Capture ids: finds the capture with an id, and the ids of captures, from the headers alone."""

from collections.abc import Iterable, Mapping
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


def captures_by_id(paths: Iterable[Path]) -> Mapping[str, Path]:
    """Returns the captures by their ids; those that cannot be read are left out. Reads files."""
    captures: dict[str, Path] = {}
    for path in paths:
        try:
            id_ = header_of(path).get("capture")
        except (CaptureError, OSError):
            continue
        if isinstance(id_, str):
            captures.setdefault(id_, path)
    return captures
