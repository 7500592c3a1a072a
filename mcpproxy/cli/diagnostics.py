"""Everything that commands say on stderr, and every exit code. stdout is data and none of this module's business.

An error is one line: what was tried, on what, what to do next. Never a traceback: locals of ours would hold traffic.
"""

import os
import sys
from collections.abc import Callable, Iterable
from enum import IntEnum

from captures.errors import CannotCreate, CaptureError
from mcpproxy.sanitise import sanitise


class Exit(IntEnum):
    """The exit codes of every command; `run` otherwise ends as the server ended."""

    FINE = 0
    FINDINGS = 1
    """Findings at or above the level asked for."""
    USAGE = 2
    """Wrong usage, or unreadable or damaged input; rows of all that is whole are printed all the same."""
    INCOMPLETE = 3
    """Only `verify`: the capture was not closed, or is still being recorded."""
    CANNOT_CREATE = 73
    """The capture cannot be created; nothing was started."""
    RECORDING_FAILED = 74
    """`run --on-record-error stop`: a record could not be written, so the session was ended."""
    CANNOT_RUN = 126
    NOT_FOUND = 127


def say(message: str) -> None:
    """One line on stderr."""
    _write(f"mcpproxy: {sanitise(message, None)}\n")


def say_table(lines: Iterable[str]) -> None:
    """Lines on stderr that belong together, without our name before each."""
    _write("".join(f"{sanitise(line, None)}\n" for line in lines))


def _write(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return


def fail(message: str, code: Exit = Exit.USAGE) -> int:
    """Say what went wrong; returns the exit code."""
    say(message)
    return int(code)


def guarded(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command; errors that a user can do something about become one line, a closed pipe a silent end."""
    if sys.stdout is None:
        return fail("stdout is closed: there is nowhere to print to")
    try:
        code = command(arguments)
        sys.stdout.flush()
    except CannotCreate as error:
        return fail(str(error), Exit.CANNOT_CREATE)
    except CaptureError as error:
        return fail(str(error))
    except BrokenPipeError:
        return int(Exit.FINE)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return fail(f"{command.__module__.rpartition('.')[2]} failed: {error}")
    finally:
        _empty_stdout()
    return code


def _empty_stdout() -> None:
    """Write what is still buffered, or let it go where nobody takes it: Python would complain once more at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
