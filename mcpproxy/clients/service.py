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
from mcpproxy.clients.replace import create

LABEL: Final = "io.github.mcpproxy.up"
SYSTEMD: Final = "~/.config/systemd/user/mcpproxy.service"
LAUNCHD: Final = f"~/Library/LaunchAgents/{LABEL}.plist"


class NoService(Exception):
    """This system has no supported service manager."""


class Unit(NamedTuple):
    """A unit that was written."""

    path: Path
    start: str
    """The command that starts the unit now and at every login."""


def write_unit(machine: Machine, command: Sequence[str]) -> Unit:
    """Writes the unit that runs a command such as `mcpproxy up`; an existing unit is replaced.

    Raises:
        NoService: the system has neither systemd nor launchd.
        OSError: the unit cannot be written.
    """
    path = unit_path(machine)
    if machine.system == "linux":
        create(path, _systemd(command).encode())
        return Unit(path, "systemctl --user daemon-reload && systemctl --user enable --now mcpproxy")
    create(path, plistlib.dumps(_launchd(command)))
    return Unit(path, f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(path))}")


def unit_path(machine: Machine) -> Path:
    """Returns the path of the unit.

    Raises:
        NoService: the system has neither systemd nor launchd.
    """
    if machine.system == "windows":
        raise NoService("mcpproxy cannot record on Windows yet, so there is no service to write")
    (path,) = machine.resolve(LAUNCHD if machine.system == "macos" else SYSTEMD, (("XDG_CONFIG_HOME", "~/.config"),))
    return path


def quoted(word: str) -> str:
    """Returns a word quoted for systemd, which reads quotes like a shell but also expands `%`."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def command_line(words: Sequence[str]) -> str:
    """Returns words quoted for `ExecStart`, which also expands `$`."""
    return " ".join(map(quoted, words)).replace("$", "$$")


def _systemd(command: Sequence[str]) -> str:
    return f"""\
[Unit]
Description=Recorder for MCP servers with a URL (mcpproxy up)

[Service]
ExecStart={command_line(command)}
Restart=on-failure

[Install]
WantedBy=default.target
"""


def _launchd(command: Sequence[str]) -> dict[str, object]:
    return {
        "Label": LABEL,
        "ProgramArguments": [*command],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
    }
