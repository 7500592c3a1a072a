"""Checks, without leaving files behind, whether a recorder could create its capture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from captures.errors import CannotCreate, CaptureError
from captures.file import CaptureFile, choose_path
from captures.ownership import directory_movable_by_others
from captures.paths import captures_root, safe_name
from captures.redact import server_name


class CaptureObstacle(NamedTuple):
    """The reason why a recorder cannot create its capture."""

    path: str
    """The directory or file that would contain the capture."""
    reason: str


def find_obstacle(
    capture: str, name: str, command: Sequence[str], variables: Mapping[str, str], folder: Path
) -> CaptureObstacle | None:
    """Return the obstacle that keeps a recorder from creating its capture, or None.

    Args:
        capture: the value of `--capture`; empty if the option is missing.
        name: the value of `--name`; empty if the option is missing.
        command: the command of the server.
        variables: the environment of the recorder.
        folder: the directory in which the recorder starts.
    """
    place = capture
    try:
        if not capture:
            folder_name = safe_name(name or server_name([os.fsencode(word) for word in command]))
            place = os.path.join(captures_root(variables), folder_name, "")
        place = os.path.join(folder, place)
        _rehearse(place)
    except (CaptureError, OSError) as error:
        return CaptureObstacle(place, str(error))
    return None


def _rehearse(place: str) -> None:
    """Create and delete a file as the recorder would, in the nearest existing directory.

    Raises:
        CannotCreate: the recorder would fail.
        OSError: a directory cannot be examined.
    """
    if os.path.isdir(place):
        place = os.path.join(place, "")
    if not place.endswith(os.sep):
        place = choose_path(place, "", 0)
        if os.path.lexists(place):
            raise CannotCreate(f"cannot create the capture {place}: it already exists")
    directory = os.path.dirname(place)
    nearest = directory
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    _check_lengths(nearest, directory[len(nearest) :])
    if nearest == directory:
        choose_path(os.path.join(nearest, ""), "", 0)
    elif not os.path.isdir(nearest):
        raise CannotCreate(f"cannot make the directory {directory} for captures: {nearest} is not a directory")
    elif (unsafe_folder := directory_movable_by_others(os.path.join(nearest, "captures"))) is not None:
        raise CannotCreate(f"cannot record into {directory}: {unsafe_folder} is writable by everyone")
    rehearsal = os.path.join(nearest, f".mcpproxy-doctor.{os.urandom(4).hex()}")
    file = CaptureFile(rehearsal)
    os.unlink(rehearsal)
    file.close()


def _check_lengths(existing_folder: str, missing_path: str) -> None:
    """Check that no name is too long for the file system: otherwise, the directory would seem to be merely missing.

    Raises:
        CannotCreate: a name is too long.
    """
    max_length = os.pathconf(
        existing_folder if os.path.isdir(existing_folder) else os.path.dirname(existing_folder), "PC_NAME_MAX"
    )
    if any(len(os.fsencode(name)) > max_length for name in missing_path.split(os.sep)):
        raise CannotCreate(
            f"cannot make the directory {existing_folder}{missing_path} for captures: a name in it is too long"
        )
