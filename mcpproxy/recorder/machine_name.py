"""The name of the machine on which a capture is recorded: chosen by the user, or else the host name.

This module is on the path of `mcpproxy run`, so it imports next to nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MachineName = tuple[str, bool]
"""A name, and whether the user chose it. A chosen name is meant to be read; a host name may identify a person."""

MAX_MACHINE_NAME_CHARS: Final = 64
VARIABLE: Final = "MCPPROXY_MACHINE"


def machine_name(given: str = "") -> MachineName | None:
    """Returns the name of this machine, or None if the host name has no printable characters.

    Args:
        given: the value of `--machine`; empty if it was not given.

    Raises:
        ValueError: what was typed, or else the environment variable, is not 1 to 64 printable characters, or is blank.
    """
    for where, name in (("--machine", given), (VARIABLE, os.environ.get(VARIABLE, ""))):
        if name:
            return checked(name, where), True
    host = "".join([char for char in os.uname().nodename if char.isprintable()])[:MAX_MACHINE_NAME_CHARS]
    return (host, False) if host else None


def checked(name: str, where: str) -> str:
    """Returns a name that a user chose, if it is valid.

    Raises:
        ValueError: it is not 1 to 64 printable characters, or is blank; the text names `where` it was given.
    """
    if not name.isprintable() or not name.strip() or len(name) > MAX_MACHINE_NAME_CHARS:
        raise ValueError(
            f"{where} must be 1 to {MAX_MACHINE_NAME_CHARS} printable characters, not spaces alone: {name[:80]!r}"
        )
    return name
