"""Writes the messages of all commands to stderr, and defines their exit codes. stdout is for data only.

An error is one line: what was tried, on what, and what to do next. It is never a traceback, because the values of local
variables in it could contain traffic.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from types import FrameType
from typing import Any, Final

from captures.errors import CannotCreate, CaptureError
from mcpproxy.sanitise import sanitise


class Exit(IntEnum):
    """The exit codes of every command; `run` otherwise ends as the server ended."""

    FINE = 0
    FINDINGS = 1
    """There are findings at or above the level given with --fail-on."""
    USAGE = 2
    """Wrong usage, or unreadable or damaged input; everything intact is printed or written anyway."""
    INCOMPLETE = 3
    """Only `verify`: the capture was not closed, or is still being recorded."""
    CANNOT_CREATE = 73
    """A capture or another output cannot be created or written, or already exists: nothing was started, and no partial
    file remains.
    """
    RECORDING_FAILED = 74
    """`run --on-record-error stop`: a record could not be written, so the session was ended."""
    CANNOT_RUN = 126
    NOT_FOUND = 127


_CLEAR_LINE: Final = "\r\x1b[K"
"""Moves the cursor of a terminal to the start of the line, and clears the line."""
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""
_MAX_LONG_NAME_CHARS: Final = 80
"""How much of a name is shown that the system refuses as too long."""
_ending_signals: Final[list[int]] = []
"""The signals that asked the process to end, in order of arrival."""
_display_names: Final[dict[str, str]] = {}
"""The display name of each file that messages must not call by its path."""


def say(message: str) -> None:
    """Write a line to stderr."""
    _write(f"mcpproxy: {sanitise(_with_display_names(message), None)}\n")


@contextmanager
def display_names(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, messages and errors refer to the files in `names` by the names that the user knows.

    Raises:
        CaptureError: as raised in the block, with the names replaced.
    """
    _display_names.update(names)
    try:
        yield
    except CaptureError as error:
        error.args = tuple(_with_display_names(part) if isinstance(part, str) else part for part in error.args)
        raise
    finally:
        for name in names:
            _display_names.pop(name, None)


def _with_display_names(message: str) -> str:
    for name, display_name in _display_names.items():
        message = message.replace(name, display_name)
    return message


def say_table(lines: Iterable[str]) -> None:
    """Write the lines of a table to stderr, without mcpproxy's name at the start of each."""
    _write("".join(f"{sanitise(line, None)}\n" for line in lines))


def _write(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return


class Progress:
    """A progress line on stderr, which each message replaces; nothing is shown unless stderr is a terminal."""

    def __init__(self) -> None:
        """Start without a progress line."""
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, message: str) -> None:
        """Replace the progress line with a message."""
        if self._is_terminal:
            from mcpproxy.wording.cells import fit_ends  # `run`, which starts fast, shows no progress

            # The last cell stays empty, because some terminals begin a new line after it.
            width = os.get_terminal_size(2).columns - 1
            text = sanitise(f"mcpproxy: {message}", None)
            _write(f"{_CLEAR_LINE}{fit_ends(text, width) if width > 0 else text}")
            self._is_shown = True

    def clear(self) -> None:
        """Remove the progress line, so that other lines can be printed."""
        if self._is_shown:
            _write(_CLEAR_LINE)
            self._is_shown = False


def fail(message: str, code: Exit = Exit.USAGE) -> int:
    """Report an error on stderr; returns the exit code."""
    say(message)
    return int(code)


def run_guarded(
    command: Callable[[list[str]], int], arguments: list[str], name: str, *, has_verdict: bool = False
) -> int:
    """Run a command; turns errors that a user can fix into one line, and a closed pipe into a silent exit.

    Args:
        command: the command to run.
        arguments: the command's arguments.
        name: the command's name in errors.
        has_verdict: whether its exit code says something about its input: then it also runs to its end, and returns
            that code, if nothing reads its output.

    Raises:
        SystemExit: the process must end, after SIGTERM or because its terminal was closed. Private files are deleted.
    """
    if sys.stdout is None:
        return fail("cannot print: stdout is closed")
    with _handle_signals(), _stdout_without_reader() if has_verdict else nullcontext():
        return _run_reporting_errors(command, arguments, name)


class _DroppingFile(io.FileIO):
    """Stdout as a file that drops what nothing reads."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _drop_stdout()
            return memoryview(data).nbytes


@contextmanager
def _stdout_without_reader() -> Iterator[None]:
    """Within the block, what is written to stdout is dropped if nothing reads it."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or stdout is not sys.__stdout__:
        yield
        return
    stdout.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_DroppingFile(stdout.fileno(), "w", closefd=False)),
        encoding=stdout.encoding,
        errors=stdout.errors,
        newline="\n",
        line_buffering=stdout.line_buffering,
    )
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = stdout


def signal_exit_code(error: BaseException) -> int | None:
    """Return the exit code if a signal caused this error, or None.

    While DuckDB runs a statement, it reports a signal as an error of its own.
    """
    if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
        return 128 + _ending_signals[0] if _ending_signals else INTERRUPTED
    return None


@contextmanager
def _handle_signals() -> Iterator[None]:
    """Make SIGHUP and SIGTERM end the process as Ctrl-C does; by default, they would leave plain-text files behind."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        # A second signal must not interrupt the cleanup.
        for handled_signal in handled_signals:
            signal.signal(handled_signal, signal.SIG_IGN)
        _ending_signals.append(number)
        _drop_stdout()  # buffered output may have no reader
        raise SystemExit(128 + number)

    # A signal that the parent process ignored (nohup) stays ignored.
    handled_signals = [
        number for number in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in handled_signals:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in handled_signals:
            signal.signal(number, signal.SIG_DFL)


def _run_reporting_errors(command: Callable[[list[str]], int], arguments: list[str], name: str) -> int:
    try:
        code = command(arguments)
        sys.stdout.flush()
    except CannotCreate as error:
        return fail(str(error), Exit.CANNOT_CREATE)
    except CaptureError as error:
        return fail(str(error))
    except BrokenPipeError:
        return int(Exit.FINE)
    except (KeyboardInterrupt, RuntimeError) as error:
        signal_code = signal_exit_code(error)
        if signal_code is None:
            raise
        return signal_code
    except OSError as error:
        file_text = "" if error.filename is None else f"{error.filename}: "
        if error.errno == errno.ENAMETOOLONG and len(file_text) > _MAX_LONG_NAME_CHARS:
            file_text = f"{file_text[:_MAX_LONG_NAME_CHARS]}…: "
        return fail(f"`{name}` failed: {file_text}{error.strerror or error}")
    finally:
        _flush_stdout()
    return code


def _flush_stdout() -> None:
    """Write buffered output, or drop it if there is no reader: otherwise, Python would report another error at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()


def _drop_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
