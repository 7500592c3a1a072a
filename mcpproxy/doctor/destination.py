"""Checks, without leaving files behind, whether a recorder could create its capture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from captures.errors import CannotCreate, CaptureError
from captures.file import CaptureFile, choose_path
from captures.ownership import movable_by_others
from captures.paths import captures_root, safe_name
from captures.redact import server_name


class Obstacle(NamedTuple):
    """What keeps a recorder from creating its capture."""

    place: str
    """The directory or file where the capture would be."""
    reason: str


def obstacle(
    capture: str, name: str, command: Sequence[str], variables: Mapping[str, str], folder: Path
) -> Obstacle | None:
    """What keeps a recorder from creating its capture, or None if nothing does.

    Args:
        capture: the value of `--capture`; empty if it is missing.
        name: the value of `--name`; empty if it is missing.
        command: the command of the server.
        variables: the environment of the recorder.
        folder: where the recorder starts.
    """
    place = capture
    try:
        if not capture:
            plain = safe_name(name or server_name([os.fsencode(word) for word in command]))
            place = os.path.join(captures_root(variables), plain, "")
        place = os.path.join(folder, place)
        _rehearse(place)
    except (CaptureError, OSError) as error:
        return Obstacle(place, str(error))
    return None


def _rehearse(place: str) -> None:
    """Try what the recorder would do, in the nearest existing directory.

    Raises:
        CannotCreate: it would fail there.
        OSError: a directory cannot be examined.
    """
    if os.path.isdir(place):
        place = os.path.join(place, "")
    if not place.endswith(os.sep):
        place = choose_path(place, "", 0)
        if os.path.lexists(place):
            raise CannotCreate(f"cannot create the capture {place}: it already exists")
    directory = os.path.dirname(place)
    existing = directory
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    _check_lengths(existing, directory[len(existing) :])
    if existing == directory:
        choose_path(os.path.join(existing, ""), "", 0)
    elif not os.path.isdir(existing):
        raise CannotCreate(f"cannot make the directory {directory} for captures: {existing} is not a directory")
    elif (loose := movable_by_others(os.path.join(existing, "captures"))) is not None:
        raise CannotCreate(f"cannot record into {directory}: {loose} is writable by everyone")
    rehearsal = os.path.join(existing, f".mcpproxy-doctor.{os.urandom(4).hex()}")
    file = CaptureFile(rehearsal)
    os.unlink(rehearsal)
    file.close()


def _check_lengths(existing: str, missing: str) -> None:
    """Refuse names that are too long for the file system: such a directory looks as if it only had to be created.

    Raises:
        CannotCreate: a name is too long.
    """
    longest = os.pathconf(existing if os.path.isdir(existing) else os.path.dirname(existing), "PC_NAME_MAX")
    if any(len(os.fsencode(name)) > longest for name in missing.split(os.sep)):
        raise CannotCreate(f"cannot make the directory {existing}{missing} for captures: a name in it is too long")
