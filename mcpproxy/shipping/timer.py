"""The systemd units that ship every hour: a service, and the timer that starts it.

They hold the command and nothing else. Credentials come from files or from an environment that the user adds to the
service.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.replace import create
from mcpproxy.clients.service import NoService, command_line

NAME: Final = "mcpproxy-ship"
_FOLDER: Final = "~/.config/systemd/user"


class Timer(NamedTuple):
    """The units as they were written."""

    paths: list[Path]
    start: str
    """The command that starts the timer, now and with every session."""


def write_timer(machine: Machine, command: Sequence[str]) -> Timer:
    """Write the units, over older ones if there are any.

    Args:
        machine: whose user runs them.
        command: the words of the command.

    Raises:
        NoService: this system has no systemd.
        OSError: they cannot be written.
    """
    if machine.system != "linux":
        raise NoService("timers are written for systemd only; run `mcpproxy ship` from the scheduler of this system")
    texts = {".service": _service(command), ".timer": _timer()}
    paths = []
    for suffix, text in texts.items():
        (path,) = machine.resolve(f"{_FOLDER}/{NAME}{suffix}", (("XDG_CONFIG_HOME", "~/.config"),))
        create(path, text.encode())
        paths.append(path)
    return Timer(paths, f"systemctl --user daemon-reload && systemctl --user enable --now {NAME}.timer")


def _service(command: Sequence[str]) -> str:
    return f"""\
[Unit]
Description=Shipment of MCP captures (mcpproxy ship)

[Service]
Type=oneshot
ExecStart={command_line(command)}
Nice=10
"""


def _timer() -> str:
    return f"""\
[Unit]
Description=Shipment of MCP captures, every hour ({NAME}.service)

[Timer]
OnCalendar=hourly
RandomizedDelaySec=10m
Persistent=true

[Install]
WantedBy=timers.target
"""
