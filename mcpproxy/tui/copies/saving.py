"""Saves an attachment to a new file that only the user can read."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.content import Attachment
from mcpproxy.wording.units import size


class SaveResult(NamedTuple):
    """The result of saving an attachment."""

    message: str
    is_bad: bool = False
    """Whether it could not be saved."""


def save(attachment: Attachment, name: str) -> SaveResult:
    """Save an attachment; returns a message that names the file, or says why the attachment could not be saved.

    Args:
        attachment: the attachment to save.
        name: the path of the file, which must not exist.
    """
    path = Path(name)
    try:
        # RuntimeError: the user in ~user does not exist.
        path = path.expanduser().absolute()
        data = attachment.decoded()
        _write(path, data)
    except FileExistsError:
        return SaveResult(f"{path.name} already exists; choose another name", is_bad=True)
    except (OSError, ValueError, RuntimeError) as error:
        return SaveResult(f"cannot write {path}: {getattr(error, 'strerror', None) or error}", is_bad=True)
    return SaveResult(f"saved {size(len(data))} to {sanitise(str(path))}")


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
