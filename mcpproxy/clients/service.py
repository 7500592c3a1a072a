"""Writes the unit that starts `mcpproxy up` with the user's session, for systemd on Linux or launchd on macOS.

The unit contains only the command. `up` reads the addresses and ports from the records of `install`.
"""

from __future__ import annotations

import plistlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.replace import write_private

LABEL: Final = "io.github.mcpproxy.up"
SYSTEMD_PATH: Final = "~/.config/systemd/user/mcpproxy.service"
LAUNCHD_PATH: Final = f"~/Library/LaunchAgents/{LABEL}.plist"


class NoService(Exception):
    """This system has no supported service manager."""


class Unit(NamedTuple):
    """A unit that was written."""

    path: Path
    start_command: str
    """The command that starts the unit now and at every login."""


def write_unit(machine: Machine, command: Sequence[str]) -> Unit:
    """Write the unit that runs a command such as `mcpproxy up`; an existing unit is replaced.

    Raises:
        NoService: the system has neither systemd nor launchd.
        OSError: the unit cannot be written.
    """
    path = unit_path(machine)
    if machine.system == "linux":
        write_private(path, _systemd_unit(command).encode())
        return Unit(path, "systemctl --user daemon-reload && systemctl --user enable --now mcpproxy")
    write_private(path, plistlib.dumps(_launchd_plist(command)))
    return Unit(path, f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(path))}")


def unit_path(machine: Machine) -> Path:
    """Returns the path of the unit.

    Raises:
        NoService: the system has neither systemd nor launchd.
    """
    if machine.system == "windows":
        raise NoService("mcpproxy cannot record on Windows yet, so there is no service to write")
    (path,) = machine.paths_of(
        LAUNCHD_PATH if machine.system == "macos" else SYSTEMD_PATH, (("XDG_CONFIG_HOME", "~/.config"),)
    )
    return path


def quoted_word(word: str) -> str:
    """Returns a word quoted for systemd, which reads quotes like a shell but also expands `%`."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def command_line(words: Sequence[str]) -> str:
    """Returns words quoted for `ExecStart`, which also expands `$`."""
    return " ".join(map(quoted_word, words)).replace("$", "$$")


def _systemd_unit(command: Sequence[str]) -> str:
    return f"""\
[Unit]
Description=Recorder for MCP servers with a URL (mcpproxy up)

[Service]
ExecStart={command_line(command)}
Restart=on-failure

[Install]
WantedBy=default.target
"""


def _launchd_plist(command: Sequence[str]) -> dict[str, object]:
    return {
        "Label": LABEL,
        "ProgramArguments": [*command],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
    }
