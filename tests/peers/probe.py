"""Prints the environment in which it was started as one line of JSON, then exits.

    probe.py [ARGUMENT...]

| member | meaning |
|---|---|
| `argv` | its own arguments, each in base64 |
| `environ` | the environment block as it was passed: `NAME=value` entries in order, each in base64 |
| `cwd` | base64 |
| `umask`, `nice`, `pid`, `ppid`, `pgid`, `sid` | numbers |
| `rlimits` | name → [soft, hard]; -1 is unlimited |
| `fds` | descriptor → its file, as /proc names it |
| `signals` | `blocked`, `ignored`: numbers; PIPE and XFSZ, which the interpreter itself ignores, left out |
| `tty` | which of 0, 1, 2 are terminals |

To see PIPE, XFSZ and INT as they were passed, run `cat /proc/self/status`: cat changes none of them.
"""

import base64
import json
import os
import resource
import signal
import sys
from pathlib import Path

CHANGED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def environment() -> list[str]:
    """The block as exec(2) left it, where /proc shows it; Python may have added LC_CTYPE to os.environ."""
    block = Path("/proc/self/environ")
    if block.exists():
        return [b64(entry) for entry in block.read_bytes().split(b"\0")[:-1]]
    return [b64(name + b"=" + value) for name, value in os.environb.items()]


def descriptors() -> dict[int, str]:
    folder = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    names = {int(name): folder / name for name in os.listdir(folder)}
    # The descriptor that was used to list the folder is closed by now.
    return {fd: str(path.readlink()) if path.is_symlink() else "" for fd, path in names.items() if _open(fd)}


def _open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def signals() -> dict[str, list[int]]:
    every = signal.valid_signals()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ignored = [number for number in every if signal.getsignal(number) == signal.SIG_IGN]
    return {"blocked": sorted(blocked), "ignored": sorted(set(ignored) - CHANGED_BY_PYTHON)}


def limits() -> dict[str, list[int]]:
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return {name: list(resource.getrlimit(getattr(resource, name))) for name in names}


def main() -> int:
    umask = os.umask(0)
    os.umask(umask)
    world = {
        "argv": [b64(os.fsencode(word)) for word in sys.argv[1:]],
        "environ": environment(),
        "cwd": b64(os.getcwdb()),
        "umask": umask,
        "nice": os.nice(0),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "pgid": os.getpgrp(),
        "sid": os.getsid(0),
        "rlimits": limits(),
        "fds": descriptors(),
        "signals": signals(),
        "tty": [fd for fd in (0, 1, 2) if os.isatty(fd)],
    }
    os.write(1, json.dumps(world).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
