"""Run a stdio server: record everything that client and server exchange, and change nothing.

usage: mcpproxy run [OPTION ...] [--] COMMAND [ARGUMENT ...]

The options end at `--`, or at the first word that does not begin with `-`.

  --name NAME            the server's name, for `ls` and the folder of its captures
                         (default: guessed from the command)
  --capture FILE|DIR/    record to a new FILE.mcpcap, or to a new file in DIR
                         (default: the user's data directory, or MCPPROXY_CAPTURES)
  --machine NAME         the name of this machine in the capture, 1 to 64 printable
                         characters (default: MCPPROXY_MACHINE, or the host name)
  --ring-size SIZE       keep at most SIZE of a session and delete the oldest
                         segments first; bytes, or with K, M, G (default: 1G)
  --fsync WHEN           1s: sync every second; a power cut loses that much
                         (default); always: sync before every chunk; never
  --keep-path SEGMENT    store this path segment of URLs on the command line in
                         plain text; all others, except common words such as mcp,
                         sse and v1, are stored as keyed hashes; can be repeated
  --on-record-error DO   if a record cannot be written: pass traffic on and count
                         the loss (default), stop the session (exit 74), or block
                         traffic until the disk accepts the record
  --if-unrecordable DO   if the capture cannot be created: refuse to start the server
                         (exit 73, default), or pass: run it unrecorded, with one line
                         on stderr; `install` writes pass, so that a full disk does
                         not leave a client without its servers
  --summary              print a line at the end even if stderr is not a terminal
  --help                 print this text

It ends as the server ends: with the same exit status, or by the same signal. The
other exit codes are 2 for wrong usage, 73 if the capture cannot be created (nothing
is started then), 74 as above, and 126 or 127 if the command cannot be run or found.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from captures.addresses import is_segment, is_web_address
from captures.errors import CannotCreate, CaptureError
from mcpproxy.recorder.machine_name import machine_name
from mcpproxy.recorder.stdio import StdioRecorder, write_stderr
from mcpproxy.relay.signals import SignalWait
from mcpproxy.relay.spawn import (
    EnvironmentBlock,
    SpawnError,
    count_open_files,
    occupy_stdio,
    raise_file_limit,
    replace_process,
)
from mcpproxy.relay.stdio import ServerExit, StdioRelay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from captures.writer import Fsync, Policy

STACK_BYTES: Final = 2 << 20
"""The size of a thread's stack, in bytes. Seven stacks of the usual 8 MiB take a fifth of an address space that is
limited to 300 MiB; the rest is too small for glibc's arenas, and an allocation fails where C code does not expect it.
"""
MAX_OPEN_FILES: Final = 24
"""How many files may be open at the same time, including the standard streams."""
SWITCH_INTERVAL_S: Final = 0.0002
"""How long a thread may keep the interpreter: frames of one direction must not wait for work on the other."""

_CHOICES: Final = {
    "--fsync": ("1s", "always", "never"),
    "--on-record-error": ("pass", "stop", "block"),
    "--if-unrecordable": ("refuse", "pass"),
}
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class UsageError(Exception):
    """Raised for invalid arguments; the message says which one is invalid, and what to do."""


class RunOptions:
    """The options of `run`, which are parsed by hand, because argparse would add 12 ms to every start."""

    def __init__(self, arguments: list[str]) -> None:
        """Parse the arguments.

        Raises:
            UsageError: an option is unknown or malformed, or there is no command.
        """
        self.values = {
            "--name": "",
            "--capture": "",
            "--machine": "",
            "--ring-size": "1G",
            "--fsync": "1s",
            "--on-record-error": "pass",
            "--if-unrecordable": "refuse",
        }
        self.keep_path: list[str] = []
        self.prints_summary = False
        self.prints_help = False
        self.command: list[bytes] = []
        words = iter(arguments)
        for word in words:
            if word == "--" or not word.startswith("-"):
                # Some clients and shells drop the `--`, so a command without it works as well.
                self.command = [os.fsencode(argument) for argument in (words if word == "--" else (word, *words))]
                break
            self._parse_option(word, words)
            if self.prints_help:
                return
        if self.command and is_web_address(self.command[0]):
            raise UsageError("COMMAND is a URL; to record an HTTP server, write: mcpproxy serve URL")
        if not self.command or not self.command[0]:
            raise UsageError(
                "the server's command is missing; write: mcpproxy run [OPTION ...] -- COMMAND [ARGUMENT ...]"
            )
        self.fsync: Fsync = self.values["--fsync"]  # type: ignore[assignment] # it is one of its choices
        self.policy: Policy = self.values["--on-record-error"]  # type: ignore[assignment]
        try:
            self.machine = machine_name(self.values["--machine"])
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.ring_bytes = _parse_size(self.values["--ring-size"])

    def _parse_option(self, word: str, words: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        if word in ("--help", "-h"):
            self.prints_help = True
        elif word == "--summary":
            self.prints_summary = True
        elif name != "--keep-path" and name not in self.values:
            option_names = ("--help", "--summary", "--keep-path", *self.values)
            raise UsageError(f"run has no option {_quoted(word)}{_hint(name, option_names)}; see mcpproxy run --help")
        else:
            value = value if equals else next(words, "")
            if not value or value == "--":
                raise UsageError(f"{name} needs a value; see mcpproxy run --help")
            if value not in _CHOICES.get(name, (value,)):
                choices = f"{', '.join(_CHOICES[name])}{_hint(value, _CHOICES[name])}"
                raise UsageError(f"{name}: {_quoted(value)} is not one of {choices}")
            if name == "--keep-path":
                if not is_segment(value):
                    raise UsageError(
                        f"--keep-path must be a single path segment, without /, ? and #, not {_quoted(value)}"
                    )
                self.keep_path.append(value)
            else:
                self.values[name] = value


def _parse_size(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in _UNITS else (text, "")
    if not number.isdecimal() or not 1 << 20 <= int(number) * _UNITS[unit] <= 1 << 50:
        raise UsageError(f"--ring-size must be a size of at least 1M, such as 512M or 2G, not {_quoted(text)}")
    return int(number) * _UNITS[unit]


def _quoted(text: str) -> str:
    return repr(text[:80])


def _hint(text: str, words: Iterable[str]) -> str:
    # This module is loaded only after a mistake, because an MCP client waits for `run`.
    from mcpproxy.wording.nearest import hint

    return hint(text, words)


def run(arguments: list[str]) -> int:
    """Run and record a server. If the server starts, this does not return: the process ends as the server does."""
    try:
        options = RunOptions(arguments)
    except UsageError as error:
        write_stderr(str(error))
        return 2
    if options.prints_help:
        sys.stdout.write(__doc__ or "")
        return 0
    start_ns = time.monotonic_ns()
    threading.stack_size(STACK_BYTES)
    closed_fds = occupy_stdio()
    environment = EnvironmentBlock()
    needed_files = MAX_OPEN_FILES + count_open_files()
    allowed_files, files = raise_file_limit(needed_files)
    try:
        if allowed_files < needed_files:
            raise CannotCreate(
                f"cannot record with a limit of {allowed_files} open files: {needed_files} are needed; raise it "
                f"(ulimit -n {needed_files})"
            )
        recorder = _new_recorder(options, environment)
    except CaptureError as error:
        if options.values["--if-unrecordable"] == "refuse":
            write_stderr(str(error))
            return 73
        if allowed_files < needed_files:
            return _become_server(str(error), options, environment, closed_fds)
        os._exit(_run_unrecorded(str(error), options, environment, closed_fds, files))
    status = _run_relay(recorder, options, environment, closed_fds, files, start_ns)
    os._exit(status)


def _new_recorder(options: RunOptions, environment: EnvironmentBlock) -> StdioRecorder:
    values = options.values
    try:
        return StdioRecorder(
            options.command,
            environment,
            name=values["--name"] or None,
            capture=values["--capture"] or None,
            ring_bytes=options.ring_bytes,
            fsync=options.fsync,
            policy=options.policy,
            keep_path=options.keep_path,
            machine=options.machine,
        )
    except OSError as error:
        raise CannotCreate(f"cannot create a capture: {error}; choose another place with --capture") from error


def _run_relay(
    recorder: StdioRecorder,
    options: RunOptions,
    environment: EnvironmentBlock,
    closed_fds: frozenset[int],
    files: int | None,
    start_ns: int,
) -> int:
    """Run the server until it ends; returns the exit status of `run`, or kills this process by the server's signal."""
    signal_wait = SignalWait()
    relay = StdioRelay(
        recorder.taps,
        recorder,
        signal_wait,
        closed=closed_fds,
        rescue=options.policy == "pass",
        waits_for_sync=options.fsync == "always",
        survivor=recorder.recovery,
        files=files,
    )
    recorder.on_stop = lambda: relay.stop("record_error")
    recorder.on_segment = relay.report_segment
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        server_exit = relay.run(options.command, environment)
    except SpawnError as error:
        recorder.launch_failed(error.errno)
        write_stderr(str(error))
        return error.status
    if recorder.finish(server_exit.cause, server_exit.status, server_exit.signum):
        relay.dismiss_guard()
    if options.prints_summary or os.isatty(2):
        write_stderr(_summary(recorder, time.monotonic_ns() - start_ns))
    return 74 if relay.stop_reason is not None else _exit_like(server_exit, signal_wait)


def _become_server(reason: str, options: RunOptions, environment: EnvironmentBlock, closed_fds: frozenset[int]) -> int:
    """Replace this process by the server, because not even a relay can run; returns the exit status if that fails."""
    write_stderr(f"{reason}; the server runs unrecorded until it is restarted")
    signal_wait = SignalWait()
    try:
        replace_process(options.command, environment, closed_fds, signal_wait.dispositions, signal_wait.inherited_mask)
    except SpawnError as error:
        write_stderr(str(error))
        return error.status


def _run_unrecorded(
    reason: str, options: RunOptions, environment: EnvironmentBlock, closed_fds: frozenset[int], files: int | None
) -> int:
    """Run the server unrecorded until it ends; returns the exit status, or kills this process as `_run_relay` does."""
    from captures.redact import server_name
    from mcpproxy.recorder.unrecorded import NullObserver, NullTap, keep_note

    write_stderr(f"{reason}; the server runs unrecorded until it is restarted")
    signal_wait = SignalWait()
    relay = StdioRelay({fd: NullTap() for fd in (0, 1, 2)}, NullObserver(), signal_wait, closed=closed_fds, files=files)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with keep_note(options.values["--name"] or server_name(options.command), reason):
        try:
            server_exit = relay.run(options.command, environment)
        except SpawnError as error:
            write_stderr(str(error))
            return error.status
    relay.dismiss_guard()
    return _exit_like(server_exit, signal_wait)


def _exit_like(server_exit: ServerExit, signal_wait: SignalWait) -> int:
    """Return the exit status of the server, or kill this process by the signal that ended the server.

    The status is 1 if the server exited with 0 but its output could not be written: without a proxy, it would have
    failed.
    """
    if server_exit.write_errno is not None:
        write_stderr(f"cannot write the server's output to stdout: {os.strerror(server_exit.write_errno)}")
    if server_exit.signum is not None:
        signal_wait.die_by(server_exit.signum)
    status = server_exit.status if server_exit.status is not None else 128 + (server_exit.signum or 0)
    return 1 if status == 0 and server_exit.write_errno is not None else status


def _summary(recorder: StdioRecorder, duration_ns: int) -> str:
    # Nothing else in a run needs this module.
    from mcpproxy.wording.units import duration, size

    frames = recorder.client.frames + recorder.server.frames
    bytes_ = recorder.client.bytes + recorder.server.bytes
    return (
        f"{recorder.name} · {duration(duration_ns)} · {frames:,} frames, {size(bytes_)} · recorded to {recorder.path}"
    )
