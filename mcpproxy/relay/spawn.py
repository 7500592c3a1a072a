"""Starts the server in the same world in which we were started.

Same environment block, directory, umask, limits, signal mask and dispositions, process group, and the descriptors
that we inherited; none of ours. Plain fork and exec, before any thread starts, because nothing else can restore an
ignored signal or a closed descriptor.
"""

import errno
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Final

NOT_FOUND: Final = 127
CANNOT_RUN: Final = 126


class SpawnError(Exception):
    """The command could not be run; nothing of it lives."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        """What a shell would exit with: 127 where there is no such command, 126 where it cannot be run."""
        self.errno = code


class EnvironmentBlock(Mapping[bytes, bytes]):
    """The environment with which this process was started, to the byte.

    Not `os.environ`: under a C locale Python itself sets LC_CTYPE before our code runs (PEP 538), and a mapping would
    drop a variable that occurs twice. Where the system does not show the block (no /proc), `os.environ` serves.
    """

    def __init__(self) -> None:
        try:
            with open("/proc/self/environ", "rb") as file:
                block = file.read().split(b"\0")
            self._pairs = [
                (name, value) for name, equals, value in (word.partition(b"=") for word in block) if equals and name
            ]
        except OSError:
            self._pairs = list(os.environb.items())

    def __getitem__(self, wanted: bytes) -> bytes:
        for name, value in self._pairs:
            if name == wanted:
                return value
        raise KeyError(wanted)

    def __iter__(self) -> Iterator[bytes]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    # exec takes the two lists side by side, which keeps repeated names.
    def keys(self) -> list[bytes]:  # type: ignore[override]
        """The names, in order, repeats and all."""
        return [name for name, _ in self._pairs]

    def values(self) -> list[bytes]:  # type: ignore[override]
        """The values, in the order of the names."""
        return [value for _, value in self._pairs]


def spawn(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    stdio: Mapping[int, int | None],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[signal.Signals],
) -> int:
    """Start a command and return its pid.

    Args:
        argv: the command; a name without a slash is looked up in PATH as execvp does.
        environment: its variables.
        stdio: what becomes its descriptors 0, 1 and 2; None leaves one closed.
        dispositions: signals to set to default or ignored again in it.
        mask: its signal mask.

    Raises:
        SpawnError: it cannot be run.
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            code = _become(argv, environment, stdio, dispositions, mask)
            os.write(tell, b"%d" % code)
        finally:
            os._exit(CANNOT_RUN)
    os.close(tell)
    with open(told, "rb", buffering=0) as pipe:
        answer = pipe.read()
    if not answer:
        return pid
    os.waitpid(pid, 0)
    raise _spawn_error(argv[0], int(answer), environment)


def _become(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    stdio: Mapping[int, int | None],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[signal.Signals],
) -> int:
    """Turn this forked child into the command; returns an errno where that fails."""
    for wanted, fd in stdio.items():
        if fd is None:
            os.closerange(wanted, wanted + 1)
        else:
            os.dup2(fd, wanted)
    for signum, disposition in dispositions.items():
        signal.signal(signum, disposition)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    worst = errno.ENOENT
    for path in _candidates(argv[0], environment):
        try:
            os.execve(path, argv, environment)
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                return _run_by_shell(path, argv, environment)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) or os.path.exists(path):
                worst = error.errno or errno.ENOENT
                if error.errno != errno.EACCES:
                    return worst
    return worst


def _run_by_shell(path: bytes, argv: list[bytes], environment: Mapping[bytes, bytes]) -> int:
    """A script without a `#!` line: POSIX has execvp give it to the shell."""
    try:
        os.execve(b"/bin/sh", [b"sh", path, *argv[1:]], environment)
    except OSError as error:
        return error.errno or errno.ENOEXEC


def _candidates(name: bytes, environment: Mapping[bytes, bytes]) -> list[bytes]:
    if b"/" in name:
        return [name]
    path = environment.get(b"PATH", b"/bin:/usr/bin")
    return [os.path.join(folder or b".", name) for folder in path.split(b":")] if name else []


def _spawn_error(name: bytes, code: int, environment: Mapping[bytes, bytes]) -> SpawnError:
    shown = name.decode("utf-8", "backslashreplace")
    if code == errno.ENOENT and not any(os.path.exists(path) for path in _candidates(name, environment)):
        where = "" if b"/" in name else " in PATH"
        return SpawnError(NOT_FOUND, code, f"cannot run {shown}: there is no such command{where}")
    why = "the interpreter that its first line names is missing" if code == errno.ENOENT else os.strerror(code)
    return SpawnError(CANNOT_RUN, code, f"cannot run {shown}: {why}")
