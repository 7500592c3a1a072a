"""Saves an attachment to a new file that only the user can read."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.content import Attachment
from mcpproxy.wording.units import size


class SaveResult(NamedTuple):
    """What became of an attachment."""

    words: str
    is_bad: bool = False
    """Whether it could not be saved."""


def save(attachment: Attachment, name: str) -> SaveResult:
    """Save it, and say where, or why not.

    Args:
        attachment: what to save.
        name: the path of the file, which must not exist.
    """
    place = Path(name)
    try:
        # RuntimeError: the user in ~user does not exist.
        place = place.expanduser().absolute()
        data = attachment.decoded()
        _write(place, data)
    except FileExistsError:
        return SaveResult(f"{place.name} already exists; choose another name", is_bad=True)
    except (OSError, ValueError, RuntimeError) as error:
        return SaveResult(f"cannot write {place}: {getattr(error, 'strerror', None) or error}", is_bad=True)
    return SaveResult(f"saved {size(len(data))} to {sanitise(str(place))}")


def _write(place: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place, flags, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            with suppress(OSError):
                place.unlink()
            raise
