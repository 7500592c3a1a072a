"""Starts the server in the same environment in which we were started.

The same environment block, directory, umask, limits, signal mask and dispositions, process group, and inherited
descriptors; none of our own. Plain fork and exec, before any thread starts, because nothing else can restore an ignored
signal or a closed descriptor.
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

NOT_FOUND: Final = 127
CANNOT_RUN: Final = 126


class SpawnError(Exception):
    """The command could not be run; no process of it is left."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        """What a shell would exit with: 127 if there is no such command, 126 if it cannot be run."""
        self.errno = code


class EnvironmentBlock(Mapping[bytes, bytes]):
    """The environment with which this process was started, to the byte.

    Not `os.environ`: under a C locale Python itself sets LC_CTYPE before our code runs (PEP 538), and a mapping would
    drop a variable that occurs twice. If the system does not show the block (no /proc), `os.environ` is used.
    """

    def __init__(self, path: str = "/proc/self/environ") -> None:
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
            # A name may begin with `=`. A word without a name or without `=` is not a variable, and exec would refuse
            # it.
            cuts = [(word, word.find(b"=", 1)) for word in words]
            self._pairs = [(word[:cut], word[cut + 1 :]) for word, cut in cuts if cut > 0]
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

    # exec takes the two lists in parallel, which keeps repeated names.
    def keys(self) -> list[bytes]:  # type: ignore[override]
        """The names, in order, including repeats."""
        return [name for name, _ in self._pairs]

    def values(self) -> list[bytes]:  # type: ignore[override]
        """The values, in the order of the names."""
        return [value for _, value in self._pairs]


def occupy_stdio() -> frozenset[int]:
    """Open /dev/null as each of 0, 1 and 2 that is closed, and return which were.

    Call it before we open anything: a capture that landed on 1 would have the server's bytes written into it.
    """
    closed = frozenset(fd for fd in (0, 1, 2) if not _is_open(fd))
    for fd in sorted(closed):
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if null != fd:
            os.dup2(null, fd, inheritable=False)
            os.close(null)
    return closed


def close_inherited() -> None:
    """Close inherited descriptors other than 0, 1 and 2 once passed on: a pipe must end when the server closes it.

    What we opened ourselves is not inheritable, which distinguishes the two.
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
    """Start a command and return its pid.

    Args:
        argv: the command; a name without a slash is looked up in PATH as execvp does.
        environment: its environment variables.
        stdio: what becomes its descriptors 0, 1 and 2; None leaves that descriptor closed.
        dispositions: signals to reset to default or ignored in it.
        mask: its signal mask.
        announce: called in the child before it becomes the command, so that the recipient knows it from its
            first instant, even if we are killed in the next.
        files: how many files it may open; None for as many as we may.

    Raises:
        SpawnError: it cannot be run.
    """
    report, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            announce()
            if files is not None:
                _limit_files(files)
            code = _become(argv, environment, stdio, dispositions, mask)
            os.write(tell, b"%d" % code)
        finally:
            os._exit(CANNOT_RUN)
    os.close(tell)
    with open(report, "rb", buffering=0) as pipe:
        answer = pipe.read()
    if not answer:
        return pid
    os.waitpid(pid, 0)
    raise _spawn_error(argv[0], int(answer), environment)


def replace_us(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    closed: frozenset[int],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[int],
) -> NoReturn:
    """Become a command, with our own descriptors 0, 1 and 2 except those that were closed when we started.

    Raises:
        SpawnError: it cannot be run.
    """
    stdio = {fd: None if fd in closed else fd for fd in (0, 1, 2)}
    raise _spawn_error(argv[0], _become(argv, environment, stdio, dispositions, mask), environment)


def inherited_files() -> int:
    """How many files are open besides the standard streams, as most of them were before we started."""
    try:
        return max(0, len(os.listdir("/dev/fd")) - 4)  # three streams, and the list itself
    except OSError:
        return 0


def make_room(needed: int) -> tuple[int, int | None]:
    """Let this process open as many files as it needs, if the system allows it.

    Returns:
        How many it may open, and how many the server may, if that is fewer now.
    """
    allowed = os.sysconf("SC_OPEN_MAX")
    if not 0 <= allowed < needed:
        return needed, None
    import resource  # not on the usual way: it would cost a quarter of a millisecond of every start

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if ours > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (ours, hard))
        except (OSError, ValueError):
            return soft, None
        return ours, soft
    return soft, None


def _limit_files(count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _become(
    argv: list[bytes],
    environment: Mapping[bytes, bytes],
    stdio: Mapping[int, int | None],
    dispositions: Mapping[int, signal.Handlers],
    mask: set[int],
) -> int:
    """Turn this forked child into the command; returns an errno if that fails."""
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
    """Run a script without a `#!` line, which POSIX execvp passes to the shell."""
    try:
        os.execve(b"/bin/sh", [b"sh", path, *argv[1:]], environment)
    except OSError as error:
        return error.errno or errno.ENOEXEC


def _candidates(name: bytes, environment: Mapping[bytes, bytes]) -> list[bytes]:
    if b"/" in name:
        return [name]
    path = environment.get(b"PATH", b"/bin:/usr/bin")
    return [os.path.join(folder or b".", name) for folder in path.split(b":")] if name else []


def cannot_start(argv: list[bytes], code: int, why: str) -> SpawnError:
    """The error for when the system lacks the resources to run anything."""
    from mcpproxy.sanitise import sanitise_bytes

    return SpawnError(CANNOT_RUN, code, f"cannot run {sanitise_bytes(argv[0])}: {why}")


def _spawn_error(name: bytes, code: int, environment: Mapping[bytes, bytes]) -> SpawnError:
    from mcpproxy.sanitise import sanitise_bytes

    shown = sanitise_bytes(name)
    if code == errno.ENOENT and not any(os.path.exists(path) for path in _candidates(name, environment)):
        where = "" if b"/" in name else " in PATH"
        return SpawnError(NOT_FOUND, code, f"cannot run {shown}: there is no such command{where}")
    why = "the interpreter that its first line names is missing" if code == errno.ENOENT else os.strerror(code)
    return SpawnError(CANNOT_RUN, code, f"cannot run {shown}: {why}")
