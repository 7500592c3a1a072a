"""Writes the systemd units that run a command regularly: a service, and the timer that starts it.

They contain the command. If variables of the user's shell name the directory of captures, the service also contains
these, because a unit does not inherit them. Credentials come from files, or from variables that the user adds to it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.replace import create
from mcpproxy.clients.service import NoService, command_line, quoted

_FOLDER: Final = "~/.config/systemd/user"


class Job(NamedTuple):
    """A command that a timer runs."""

    command: str
    """The mcpproxy command; its units are named after it."""
    description: str
    often: str
    """How often it runs, in words."""
    calendar: str
    """How often it runs, as a calendar expression of systemd."""
    spread: str
    """The maximum random delay, which keeps machines from all starting at the same time."""

    @property
    def name(self) -> str:
        """The name of its units, without their suffixes."""
        return f"mcpproxy-{self.command}"


SHIP: Final = Job("ship", "Shipment of MCP captures", "every hour", "hourly", "10m")
PRUNE: Final = Job("prune", "Deletion of old MCP captures", "every day", "daily", "1h")
JOBS: Final = (SHIP, PRUNE)


class Timer(NamedTuple):
    """The units that were written."""

    paths: list[Path]
    start: str
    """The command that starts the timer now and at every login."""


def write_timer(machine: Machine, job: Job, command: Sequence[str], variables: Mapping[str, str]) -> Timer:
    """Writes the units; existing ones are replaced.

    Args:
        machine: the machine, whose user runs the units.
        job: the job that the timer runs.
        command: the words of the command.
        variables: variables to add to the environment of the command.

    Raises:
        NoService: the system has no systemd.
        OSError: the units cannot be written.
    """
    if machine.system != "linux":
        raise NoService(
            f"timers are written for systemd only; run `mcpproxy {job.command}` from the scheduler of this system"
        )
    service, timer = unit_paths(machine, job)
    create(service, _service(job, command, variables).encode())
    create(timer, _timer(job).encode())
    return Timer([service, timer], f"systemctl --user daemon-reload && systemctl --user enable --now {timer.name}")


def unit_paths(machine: Machine, job: Job) -> tuple[Path, Path]:
    """Returns the paths of the units of a job: the service and the timer."""
    variables = (("XDG_CONFIG_HOME", "~/.config"),)
    (service,) = machine.resolve(f"{_FOLDER}/{job.name}.service", variables)
    (timer,) = machine.resolve(f"{_FOLDER}/{job.name}.timer", variables)
    return service, timer


def _service(job: Job, command: Sequence[str], variables: Mapping[str, str]) -> str:
    environment = "".join(f"Environment={quoted(f'{name}={value}')}\n" for name, value in variables.items())
    return f"""\
[Unit]
Description={job.description} (mcpproxy {job.command})

[Service]
Type=oneshot
{environment}ExecStart={command_line(command)}
Nice=10
"""


def _timer(job: Job) -> str:
    return f"""\
[Unit]
Description={job.description}, {job.often} ({job.name}.service)

[Timer]
OnCalendar={job.calendar}
RandomizedDelaySec={job.spread}
Persistent=true

[Install]
WantedBy=timers.target
"""
