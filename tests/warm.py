"""Commands in processes of their own that need not load the program first: they are forked from one that has.

Most of what a command costs, half a second and more, is the loading of modules, the same every time. So the first
command that a test asks for starts a process that loads what all commands need and then waits; each command is a fork
of it, with the arguments, environment, directory and streams that were asked for. From `main()` on it runs as it would
by itself, and it ends as the interpreter ends.

What a fork does not show is how a command starts: what it imports, and what the interpreter makes of variables such as
PYTHONIOENCODING and LC_ALL.
`tests/mcpproxy/cli/test_dispatch_integration.py` runs every command in both ways, and compares.
"""

import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
_NUMBER: Final = struct.Struct("!i")
_LATER: Final = ("mcp_types.methods", "pydantic", "asyncio", "jsonschema_rs")
"""What commands load when they need it."""
_LEFT_OUT: Final = {"mcpproxy.cli.run", "mcpproxy.cli.serve", "mcpproxy.cli.tui"}
"""Commands that are started by themselves wherever more than their usage is tested."""


class Forks:
    """A process that has loaded the program, and forks one command at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**kept, "LC_ALL": "C.UTF-8"},
            )

    def run(
        self,
        arguments: Sequence[str | Path],
        stdin: bytes,
        cwd: Path | None,
        environment: Mapping[str, str],
        within_s: float,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one command to its end.

        Raises:
            subprocess.TimeoutExpired: it has not ended in so long, and was killed.
        """
        (asks, feed), (out, prints), (errors, complains) = os.pipe(), os.pipe(), os.pipe()
        with ThreadPoolExecutor(3) as threads:
            try:
                pid = self.begin(arguments, (asks, prints, complains), cwd, environment)
            finally:
                for stream in (asks, prints, complains):
                    os.close(stream)
            threads.submit(_write, feed, stdin)
            printed, complained = threads.submit(_read, out), threads.submit(_read, errors)
            try:
                code = self.end(within_s)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self.end(within_s)
                raise subprocess.TimeoutExpired(list(map(str, arguments)), within_s) from None
            return subprocess.CompletedProcess(arguments, code, printed.result(), complained.result())

    def begin(
        self, arguments: Sequence[str | Path], streams: Sequence[int], cwd: Path | None, environment: Mapping[str, str]
    ) -> int:
        """Start a command on these as stdin, stdout and stderr; returns its pid. The next has to wait for its `end`."""
        order = {
            "arguments": list(map(str, arguments)),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(environment),
        }
        told = json.dumps(order).encode()
        self._ours.settimeout(None)
        socket.send_fds(self._ours, [_NUMBER.pack(len(told))], streams)
        self._ours.sendall(told)
        return self._hear()

    def end(self, within_s: float) -> int:
        """The exit code of the command, or minus the signal that ended it.

        Raises:
            TimeoutError: it has not ended in so long.
        """
        self._ours.settimeout(within_s)
        return self._hear()

    def close(self) -> None:
        """Let the process end that waits."""
        self._ours.close()
        self._process.wait()

    def _hear(self) -> int:
        told = _all_of(self._ours, _NUMBER.size)
        assert told, "the process that forks has ended"
        return int(_NUMBER.unpack(told)[0])


def _write(stream: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(stream, "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def _read(stream: int) -> bytes:
    with open(stream, "rb") as file:
        return file.read()


def _all_of(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := stream.recv(size - len(data))):
        data += chunk
    return data


# ---- in the process that forks


def _load() -> None:
    for name in (*_LATER, *_modules("captures"), *_modules("analysis"), *_modules("analysis.rules")):
        importlib.import_module(name)
    # Else every fork would look through all of it at its end, for a quarter of a second. DuckDB comes later: it
    # complains about objects of its own that are there at the very end.
    gc.collect()
    gc.freeze()
    for name in (*_modules("analysis.store"), *_modules("mcpproxy.cli")):
        importlib.import_module(name)


def _modules(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.iter_modules(path, f"{package}.") if module.name not in _LEFT_OUT]


def _next(orders: socket.socket) -> dict[str, Any]:
    """What to run; a fork of this process returns with it. Ends when there are no more orders."""
    while True:
        head, streams, _, _ = socket.recv_fds(orders, _NUMBER.size, 3)
        if not head:
            sys.exit()
        order: dict[str, Any] = json.loads(_all_of(orders, _NUMBER.unpack(head)[0]))
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            orders.close()
            os.closerange(3, max(streams) + 1)
            return order
        for stream in streams:
            os.close(stream)
        orders.sendall(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        orders.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(order: dict[str, Any]) -> None:
    """Turn a fork into what `python -m mcpproxy` is before it runs."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = [str(ROOT / "mcpproxy/__main__.py"), *order["arguments"]]
    sys.path[0] = order["cwd"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            open(number, "wb" if number else "rb", closefd=False),  # noqa: SIM115 - it is open to the end
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    _load()
    _become(_next(socket.socket(fileno=int(sys.argv[1]))))
    from mcpproxy.__main__ import main

    sys.exit(main())
