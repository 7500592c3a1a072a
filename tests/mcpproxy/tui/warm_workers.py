"""Forks the processes of the screens from processes that have loaded their modules.

Each run of the app starts a process that reads captures, and some start one that runs SQL: a quarter of a second each,
nearly all of it for loading modules; on a terminal, the program itself takes a second. Here they are forked, become
children of this process, and run from `main()` on as they would by themselves. `test_pty_integration.py` starts some
as a user does.
"""

import atexit
import ctypes
import gc
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
WORKERS: Final = ("mcpproxy.tui.data.worker", "mcpproxy.tui.data.comparison_worker", "mcpproxy.sql.worker")
PROGRAM: Final = ("mcpproxy.__main__", "mcpproxy.cli.tui", "mcpproxy.tui.app", "mcpproxy.tui.shutdown")
"""The modules to load for the program; the first has its `main()`."""
_NUMBER: Final = struct.Struct("!i")
_GONE: Final = b"."
_ADOPT: Final = 36
"""PR_SET_CHILD_SUBREAPER (linux/prctl.h): whether orphaned descendants of this process become its children."""
CAN_ADOPT: Final = sys.platform == "linux"


class _Nursery:
    """A process that has loaded some modules, and forks."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "utf8", __file__, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            )
        atexit.register(self._close)

    def fork(self, arguments: Sequence[str], streams: Sequence[int], cwd: str, environment: Mapping[str, str]) -> int:
        """Fork a child of this process with `streams` as stdin, stdout and stderr; returns its pid.

        Args:
            arguments: the module whose `main()` it runs, and those of its command line.
            streams: the descriptors.
            cwd: its working directory.
            environment: its variables.
        """
        order = {"module": arguments[0], "arguments": arguments[1:], "cwd": cwd, "environment": dict(environment)}
        told = json.dumps(order).encode()
        _adopt(True)
        try:
            socket.send_fds(self._ours, [_NUMBER.pack(len(told))], streams)
            self._ours.sendall(told)
            pid = int(_NUMBER.unpack(_all_of(self._ours, _NUMBER.size))[0])
            # It becomes a child of this process, which can then wait for its end, only when its parent is gone.
            assert _all_of(self._ours, 1) == _GONE
            return pid
        finally:
            _adopt(False)

    def _close(self) -> None:
        self._ours.close()
        self._process.wait()


_nursery = cache(_Nursery)


def _adopt(does: bool) -> None:
    ctypes.CDLL(None).prctl(_ADOPT, int(does), 0, 0, 0)


class Forked(subprocess.Popen[bytes]):
    """Replaces `subprocess.Popen` for `python -c ... WORKER` and `python -m mcpproxy`."""

    def _execute_child(self, command: Sequence[str], *rest: Any) -> None:
        modules: tuple[str, ...] = WORKERS
        if "-m" in command:
            modules, arguments = PROGRAM, [PROGRAM[0], *command[command.index("-m") + 2 :]]
        else:
            arguments = [command[command.index("-c") + 2]]
        if arguments[0] not in modules:
            super()._execute_child(command, *rest)  # type: ignore[misc]
            return
        cwd, environment, pipes = rest[4], rest[5], rest[9:15]
        streams = (pipes[0], pipes[3], pipes[5])
        self.pid = _nursery(modules).fork(arguments, streams, str(cwd or Path.cwd()), environment or os.environ)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _all_of(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := stream.recv(size - len(data))):
        data += chunk
    return data


# ---- in the process that forks


def _next(orders: socket.socket) -> dict[str, Any]:
    """Fork twice for each order; returns the order in the inner fork. Exits when there are no more orders."""
    while True:
        head, streams, _, _ = socket.recv_fds(orders, _NUMBER.size, 3)
        if not head:
            sys.exit()
        order: dict[str, Any] = json.loads(_all_of(orders, _NUMBER.unpack(head)[0]))
        first = os.fork()
        if first == 0:
            pid = os.fork()
            if pid == 0:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                orders.close()
                os.closerange(3, max(streams) + 1)
                return order
            orders.sendall(_NUMBER.pack(pid))
            os._exit(0)
        for stream in streams:
            os.close(stream)
        os.waitpid(first, 0)
        orders.sendall(_GONE)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    from tests.analysis.judged import Judged
    from tests.warm import _become

    for _name in sys.argv[2:]:
        import_module(_name)
    Judged()  # finds the rules, and compiles their patterns
    gc.collect()
    gc.freeze()
    _order = _next(socket.socket(fileno=int(sys.argv[1])))
    if _order["module"] == PROGRAM[0]:
        os.setsid()
        # On a busy machine, a key may cause work for longer than the next one would wait.
        setattr(import_module("mcpproxy.tui.keys.queue"), "MAX_KEY_WAIT_S", 200.0)  # noqa: B010 - as below
    else:
        os.setpgid(0, 0)
    _become(_order)
    # Among other tests, a worker with the lowest priority would hardly ever run.
    setattr(os, "nice", lambda _increment: 0)  # noqa: B010 - for mypy, it is a function that must not be replaced
    sys.exit(import_module(_order["module"]).main())
