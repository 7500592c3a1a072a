"""Determines the name of the machine on which a capture is recorded: one that the user chose, or the host name.

This module is on the path of `mcpproxy run`, so it imports next to nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MachineName = tuple[str, bool]
"""A name, and whether the user chose it. A chosen name may be shown; a host name may identify a person."""

MAX_MACHINE_NAME_CHARS: Final = 64
MACHINE_VARIABLE: Final = "MCPPROXY_MACHINE"


def machine_name(option: str = "") -> MachineName | None:
    """Returns the name of this machine, or None if the host name has no printable characters.

    Args:
        option: the value of `--machine`; empty if it was not given.

    Raises:
        ValueError: the name from the option, or else from the environment variable, is not 1 to 64 printable
            characters, or is blank.
    """
    for source, name in (("--machine", option), (MACHINE_VARIABLE, os.environ.get(MACHINE_VARIABLE, ""))):
        if name:
            return checked_name(name, source), True
    host = "".join([char for char in os.uname().nodename if char.isprintable()])[:MAX_MACHINE_NAME_CHARS]
    return (host, False) if host else None


def checked_name(name: str, source: str) -> str:
    """Returns a name that the user chose if it is valid.

    Raises:
        ValueError: the name is not 1 to 64 printable characters, or is blank; the text begins with `source`.
    """
    if not name.isprintable() or not name.strip() or len(name) > MAX_MACHINE_NAME_CHARS:
        raise ValueError(
            f"{source} must be 1 to {MAX_MACHINE_NAME_CHARS} printable characters, not spaces alone: {name[:80]!r}"
        )
    return name
