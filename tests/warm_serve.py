"""`mcpproxy serve` in forks of a process that has loaded it: to load it takes ten times what a test then does with it.

From `main()` on a fork runs as `serve` would by itself. What it does not show is how `serve` starts;
`tests/mcpproxy/cli` starts it as a user would.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[1]
_NUMBER: Final = struct.Struct("!i")
_PACKAGES: Final = ("captures", "mcpproxy.wire", "mcpproxy.recorder", "mcpproxy.relay", "mcpproxy.relay.http")


class Forked:
    """A forked `serve`, as far as it is like `subprocess.Popen`."""

    def __init__(self, status: IO[bytes], streams: Sequence[IO[bytes]]) -> None:
        self._status = status
        self.stdin, self.stdout, self.stderr = streams
        self.pid = _NUMBER.unpack(status.read(_NUMBER.size))[0]
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, or minus the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it has not ended in so long.
        """
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("serve", timeout or 0)
            self.returncode = _NUMBER.unpack(self._status.read(_NUMBER.size))[0]
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """The same if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, signum: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Serves:
    """The process that forks them."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=kept
            )

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], *, uvloop: bool) -> Forked:
        """Start `serve` with pipes for its three streams."""
        (asks, feed), (out, prints), (errors, complains), (ends, tells) = (os.pipe() for _ in range(4))
        order = json.dumps({"arguments": arguments, "environment": dict(environment), "uvloop": uvloop}).encode()
        theirs = (asks, prints, complains, tells)
        socket.send_fds(self._ours, [_NUMBER.pack(len(order))], theirs)
        self._ours.sendall(order)
        for stream in theirs:
            os.close(stream)
        streams = (open(feed, "wb", 0), open(out, "rb", 0), open(errors, "rb", 0))  # noqa: SIM115 - closed by the test
        return Forked(open(ends, "rb"), streams)

    def close(self) -> None:
        """Let the process end that forks."""
        self._ours.close()
        self._process.wait()


@cache
def serves() -> Serves:
    """The one process of this process that forks them."""
    made = Serves()
    atexit.register(made.close)
    return made


# ---- in the process that forks


def _load() -> None:
    importlib.import_module("mcpproxy.cli.serve")
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _next(orders: socket.socket) -> dict[str, Any]:
    """What to run; a fork returns with it. Ends when there are no more orders."""
    while True:
        head, streams, _, _ = socket.recv_fds(orders, _NUMBER.size, 4)
        if not head:
            sys.exit()
        order, size = b"", _NUMBER.unpack(head)[0]
        while len(order) < size:
            order += orders.recv(size - len(order))
        with suppress(ChildProcessError):  # those that have ended; what they took is counted, see tests/costs.py
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:  # the parent of the command, which waits for it
            orders.close()
            *three, tells = streams
            if (pid := os.fork()) == 0:
                for number, stream in enumerate(three):
                    os.dup2(stream, number)
                os.closerange(3, max(streams) + 1)
                found: dict[str, Any] = json.loads(order)
                return found
            for stream in three:
                os.close(stream)
            os.write(tells, _NUMBER.pack(pid))
            os.write(tells, _NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            os._exit(0)
        for stream in streams:
            os.close(stream)


def _become(order: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = [str(ROOT / "mcpproxy/__main__.py"), "serve", *order["arguments"]]
    if not order["uvloop"]:
        sys.modules["uvloop"] = None  # type: ignore[assignment] # so that it cannot be imported
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open(number, "w" if number else "r", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _load()
    _become(_next(socket.socket(fileno=int(sys.argv[1]))))
    from mcpproxy.__main__ import main

    sys.exit(main())
