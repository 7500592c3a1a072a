"""`--service` of `ship` and `prune`: writes a timer that runs the command with the same options."""

import sys
from collections.abc import Iterable
from pathlib import Path

from captures.listing import location_variables
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import named_captures
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.service import NoService
from mcpproxy.clients.timer import TimerJob, write_timer
from mcpproxy.clients.wrapper import NoProgram, program_words
from mcpproxy.sanitise import sanitise


def write_timer_units(job: TimerJob, words: Iterable[str]) -> int:
    """Write the units that run an mcpproxy command, and print how to start them; returns the exit code."""
    try:
        machine = Machine.current()
        timer = write_timer(machine, job, [*program_words(), job.command, *words], location_variables())
    except (OSError, NoService, NoProgram) as error:
        return fail(f"the timer cannot be written: {error}")
    for path in timer.paths:
        sys.stdout.write(f"Wrote {sanitise(machine.display_path(path))}\n")
    sys.stdout.write(f"To start it now and at every login, run: {timer.start_command}\n")
    return int(Exit.FINE)


def unit_operand(name: str) -> str:
    """Return an operand for a unit, which runs in another directory: paths to captures become absolute.

    Raises:
        NotACapture: the operand names no capture, so the unit would fail every time, unnoticed.
    """
    return str(Path(name).absolute()) if named_captures(name).kind in ("file", "folder") else name
