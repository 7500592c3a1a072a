"""Starts the server in the same environment in which mcpproxy was started.

The server gets the same environment block, directory, umask, limits, signal mask and dispositions, process group and
inherited descriptors, and none of mcpproxy's own descriptors. It is started by plain fork and exec before any thread
starts, because nothing else can restore an ignored signal or a closed descriptor.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, NoReturn
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

NOT_FOUND_STATUS: Final = 127
CANNOT_RUN_STATUS: Final = 126


class SpawnError(Exception):
    """The command could not be run, and left no process behind."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        """The exit status that a shell would return: 127 if the command does not exist, 126 if it cannot be run."""
        self.errno = code


class EnvironmentBlock(Mapping[bytes, bytes]):
    """The exact environment with which this process was started.

    `os.environ` may differ: under a C locale, Python itself sets LC_CTYPE before any other code runs (PEP 538), and a
    mapping drops a variable that occurs twice. `os.environ` is used only if the system does not show the environment
    block (no /proc).
    """

    def __init__(self, path: str = "/proc/self/environ") -> None:
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
            # A name may begin with `=`. A word without a name or without `=` is not a variable, and exec refuses it.
            separators = [(word, word.find(b"=", 1)) for word in words]
            self._pairs = [(word[:separator], word[separator + 1 :]) for word, separator in separators if separator > 0]
        except OSError:
            self._pairs = list(os.environb.items())

    def __getitem__(self, key: bytes) -> bytes:
        for name, value in self._pairs:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    # exec reads the two lists in parallel, which keeps repeated names.
    def keys(self) -> list[bytes]:  # type: ignore[override]
        """Returns the names in order, including repeated ones."""
        return [name for name, _ in self._pairs]

    def values(self) -> list[bytes]:  # type: ignore[override]
        """Returns the values in the order of the names."""
        return [value for _, value in self._pairs]


def occupy_stdio() -> frozenset[int]:
    """Open /dev/null on each of the descriptors 0, 1 and 2 that is closed; returns those that were closed.

    Call it before anything else is opened: if a capture were opened as descriptor 1, it would receive the server's
    bytes.
    """
    closed_fds = frozenset(fd for fd in (0, 1, 2) if not _is_open(fd))
    for fd in sorted(closed_fds):
        null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if null_fd != fd:
            os.dup2(null_fd, fd, inheritable=False)
            os.close(null_fd)
    return closed_fds


def close_inherited() -> None:
    """Close inherited descriptors other than 0, 1 and 2, so that a pipe ends when the server closes it.

    Call it after the server has inherited them. Descriptors that mcpproxy itself opened are not inheritable, and stay.
    """
    for fd in _open_descriptors():
        try:
            if fd > 2 and os.get_inheritable(fd):
                os.close(fd)
        except OSError:
            continue


def _open_descriptors() -> Iterable[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(folder)]
        except OSError:
            continue
    return range(3, min(os.sysconf("SC_OPEN_MAX"), 4096))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def spawn(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    stdio: Mapping[int, int | None],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[int],
    *,
    announce: Callable[[], None] = lambda: None,
    files: int | None = None,
) -> int:
    """Start a command; returns its pid.

    Args:
        argv: the command; a name without a slash is looked up in PATH, as by execvp.
        environment: the environment variables of the command.
        stdio: the descriptors that become 0, 1 and 2 of the command; None leaves a descriptor closed.
        dispositions: the signals whose dispositions to reset in the command.
        mask: the signal mask of the command.
        announce: called in the child before exec, so that the guard knows the process even if mcpproxy is killed
            immediately afterwards.
        files: the limit on open files for the command; None for the limit of this process.

    Raises:
        SpawnError: the command cannot be run.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            announce()
            if files is not None:
                _limit_files(files)
            code = _exec_command(argv, environment, stdio, dispositions, mask)
            os.write(write_end, b"%d" % code)
        finally:
            os._exit(CANNOT_RUN_STATUS)
    os.close(write_end)
    with open(read_end, "rb", buffering=0) as pipe:
        error_code = pipe.read()
    if not error_code:
        return pid
    os.waitpid(pid, 0)
    raise _spawn_error(argv[0], int(error_code), environment)


def replace_process(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    closed: frozenset[int],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[int],
) -> NoReturn:
    """Replace this process with a command, which keeps those of descriptors 0, 1 and 2 that were open at the start.

    Raises:
        SpawnError: the command cannot be run.
    """
    stdio = {fd: None if fd in closed else fd for fd in (0, 1, 2)}
    raise _spawn_error(argv[0], _exec_command(argv, environment, stdio, dispositions, mask), environment)


def count_open_files() -> int:
    """Returns how many files are open in addition to the standard streams, most of which are inherited."""
    try:
        return max(0, len(os.listdir("/dev/fd")) - 4)  # without the three streams, and the listed folder itself
    except OSError:
        return 0


def raise_file_limit(needed: int) -> tuple[int, int | None]:
    """Raise the limit on open files of this process as far as needed, if the system allows it.

    Returns:
        The limit for this process, and the limit to set for the server if it differs, or None.
    """
    current_limit = os.sysconf("SC_OPEN_MAX")
    if not 0 <= current_limit < needed:
        return needed, None
    import resource  # imported only when needed, because it takes a quarter of a millisecond

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised_limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if raised_limit > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised_limit, hard))
        except (OSError, ValueError):
            return soft, None
        return raised_limit, soft
    return soft, None


def _limit_files(count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _exec_command(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    stdio: Mapping[int, int | None],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[int],
) -> int:
    """Replace this process with the command; returns an errno if that fails."""
    for target_fd, fd in stdio.items():
        if fd is None:
            os.closerange(target_fd, target_fd + 1)
        else:
            os.dup2(fd, target_fd)
    for signum, disposition in dispositions.items():
        signal.signal(signum, disposition)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    worst_code = errno.ENOENT
    for path in _candidates(argv[0], environment):
        try:
            os.execve(path, argv, environment)
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                return _exec_shell(path, argv, environment)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) or os.path.exists(path):
                worst_code = error.errno or errno.ENOENT
                if error.errno != errno.EACCES:
                    return worst_code
    return worst_code


def _exec_shell(path: bytes, argv: list[bytes], environment: Mapping[bytes, bytes]) -> int:
    """Run a script without a `#!` line in the shell, as POSIX execvp does; returns an errno if that fails."""
    try:
        os.execve(b"/bin/sh", [b"sh", path, *argv[1:]], environment)
    except OSError as error:
        return error.errno or errno.ENOEXEC


def _candidates(name: bytes, environment: Mapping[bytes, bytes]) -> list[bytes]:
    if b"/" in name:
        return [name]
    path = environment.get(b"PATH", b"/bin:/usr/bin")
    return [os.path.join(folder or b".", name) for folder in path.split(b":")] if name else []


def start_error(argv: list[bytes], code: int, reason: str) -> SpawnError:
    """Returns the error for a system that lacks the resources to run anything."""
    from mcpproxy.sanitise import sanitise_bytes

    return SpawnError(CANNOT_RUN_STATUS, code, f"cannot run {sanitise_bytes(argv[0])}: {reason}")


def _spawn_error(name: bytes, code: int, environment: Mapping[bytes, bytes]) -> SpawnError:
    from mcpproxy.sanitise import sanitise_bytes

    shown_name = sanitise_bytes(name)
    if code == errno.ENOENT and not any(os.path.exists(path) for path in _candidates(name, environment)):
        place_text = "" if b"/" in name else " in PATH"
        return SpawnError(NOT_FOUND_STATUS, code, f"cannot run {shown_name}: there is no such command{place_text}")
    reason = "the interpreter that its first line names is missing" if code == errno.ENOENT else os.strerror(code)
    return SpawnError(CANNOT_RUN_STATUS, code, f"cannot run {shown_name}: {reason}")
