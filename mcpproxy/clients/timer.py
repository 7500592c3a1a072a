"""Writes the systemd units that run a command regularly: a service, and the timer that starts it.

They contain the command. If variables of the user's shell name the directory of captures, the service also contains
these, because a unit does not inherit them. Credentials come from files, or from variables that the user adds to it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.replace import write_private
from mcpproxy.clients.service import NoService, command_line, quoted_word

_FOLDER: Final = "~/.config/systemd/user"


class TimerJob(NamedTuple):
    """A command that a timer runs."""

    command: str
    """The mcpproxy command; its units are named after it."""
    description: str
    frequency: str
    """How often it runs, in words."""
    calendar: str
    """How often it runs, as a calendar expression of systemd."""
    max_delay: str
    """The maximum random delay, which keeps machines from all starting at the same time."""

    @property
    def unit_name(self) -> str:
        """The name of its units, without their suffixes."""
        return f"mcpproxy-{self.command}"


SHIP: Final = TimerJob("ship", "Shipment of MCP captures", "every hour", "hourly", "10m")
PRUNE: Final = TimerJob("prune", "Deletion of old MCP captures", "every day", "daily", "1h")
JOBS: Final = (SHIP, PRUNE)


class WrittenTimer(NamedTuple):
    """The units that were written."""

    paths: list[Path]
    start_command: str
    """The command that starts the timer now and at every login."""


def write_timer(machine: Machine, job: TimerJob, command: Sequence[str], variables: Mapping[str, str]) -> WrittenTimer:
    """Write the units; existing ones are replaced.

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
    write_private(service, _service_text(job, command, variables).encode())
    write_private(timer, _timer_text(job).encode())
    return WrittenTimer(
        [service, timer], f"systemctl --user daemon-reload && systemctl --user enable --now {timer.name}"
    )


def unit_paths(machine: Machine, job: TimerJob) -> tuple[Path, Path]:
    """Returns the paths of the units of a job: the service and the timer."""
    variables = (("XDG_CONFIG_HOME", "~/.config"),)
    (service,) = machine.paths_of(f"{_FOLDER}/{job.unit_name}.service", variables)
    (timer,) = machine.paths_of(f"{_FOLDER}/{job.unit_name}.timer", variables)
    return service, timer


def _service_text(job: TimerJob, command: Sequence[str], variables: Mapping[str, str]) -> str:
    environment = "".join(f"Environment={quoted_word(f'{name}={value}')}\n" for name, value in variables.items())
    return f"""\
[Unit]
Description={job.description} (mcpproxy {job.command})

[Service]
Type=oneshot
{environment}ExecStart={command_line(command)}
Nice=10
"""


def _timer_text(job: TimerJob) -> str:
    return f"""\
[Unit]
Description={job.description}, {job.frequency} ({job.unit_name}.service)

[Timer]
OnCalendar={job.calendar}
RandomizedDelaySec={job.max_delay}
Persistent=true

[Install]
WantedBy=timers.target
"""
