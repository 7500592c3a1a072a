"""Runs commands in separate processes that need not load the program: they are forked from one that has loaded it.

Most of the cost of a command, half a second and more, is loading the same modules every time. So the first command that
a test runs starts a process that loads what all commands need and then waits. Each command is a fork of this process,
with the requested arguments, environment, directory and streams. From `main()` on it runs as it would by itself, and it
ends as the interpreter ends. A child process that it starts for one of mcpproxy's modules is a fork, too. `serve` and
the SDK's server are forked from two other processes.

A fork does not show how a command starts: what it imports, and how the interpreter reacts to variables such as LC_ALL;
PYTHONIOENCODING is handled here. `tests/mcpproxy/cli/test_dispatch_integration.py` runs the commands both ways and
compares them; some in soak only.
"""

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast

ROOT: Final = Path(__file__).parents[1]
DEADLINE_S: Final = 600
"""Only catches hangs: on a busy machine, a command that takes seconds takes minutes."""
_NUMBER: Final = struct.Struct("!i")
_LATER: Final = ("mcp_types.methods", "pydantic", "asyncio", "jsonschema_rs")
"""Modules that commands load only when they need them."""
_REDACTS: Final = {"share", "scan", "ship", "export", "--redact"}
"""Command-line words of commands that need the rules for secrets."""


LOADED_LATE: Final = ("run", "serve", "tui", "up", "demo")
"""Commands that start programs themselves, or whose start is part of what they promise."""
PROGRAM: Final = """#!{python} -IS
import json, os, signal, socket, struct, sys
if {{*sys.argv[1:2]}} & {{*{late!r}}}:
    os.execv({python!r}, [{python!r}, "-P", "-m", "mcpproxy", *sys.argv[1:]])
asks = socket.socket(socket.AF_UNIX)
asks.connect({place!r})
order = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ), "code": ""}}
told = json.dumps(order).encode()
socket.send_fds(asks, [struct.pack("!i", len(told))], [0, 1, 2])
asks.sendall(told)
(code,) = struct.unpack("!i", asks.recv(4, socket.MSG_WAITALL))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


AT_A_TERMINAL: Final = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""Code that runs a command as its terminal's foreground process, so that Ctrl-C interrupts it."""


class Forks:
    """A process that has loaded the program, and forks commands."""

    def __init__(self, loads: str = "all") -> None:
        """Start it.

        Args:
            loads: `all`; `serve`, without anything else, as its memory is measured; or `sdk`, a server of the SDK.
        """
        self._lock = Lock()
        self._last = 0
        self._statuses: dict[int, int] = {}
        """The pipes from which the exit codes of commands are read, by pid."""
        self._folder = tempfile.TemporaryDirectory(prefix="mcpproxy-forks-")
        self.place = Path(self._folder.name, "socket")
        """The socket to which programs connect, see `PROGRAM`."""
        self._ours, theirs = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.place))
        listener.listen(64)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with theirs, listener:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), str(listener.fileno()), loads],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), listener.fileno()],
                env={**kept, "LC_ALL": "C.UTF-8"},
            )

    def run(
        self,
        arguments: Sequence[str | Path],
        stdin: bytes,
        cwd: Path | None,
        environment: Mapping[str, str],
        within_s: float,
        code: str = "",
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one command to its end, or Python `code` in its place.

        Raises:
            subprocess.TimeoutExpired: it did not end in time, and was killed.
        """
        (asks, feed), (out, prints), (errors, complains) = os.pipe(), os.pipe(), os.pipe()
        with ThreadPoolExecutor(3) as threads:
            try:
                pid = self.begin(arguments, (asks, prints, complains), cwd, environment, code)
            finally:
                for stream in (asks, prints, complains):
                    os.close(stream)
            threads.submit(_write, feed, stdin)
            printed, complained = threads.submit(_read, out), threads.submit(_read, errors)
            try:
                status = self.end(within_s, pid)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self.end(within_s, pid)
                raise subprocess.TimeoutExpired(list(map(str, arguments)), within_s) from None
            return subprocess.CompletedProcess(arguments, status, printed.result(), complained.result())

    def begin(
        self,
        arguments: Sequence[str | Path],
        streams: Sequence[int],
        cwd: Path | None,
        environment: Mapping[str, str],
        code: str = "",
    ) -> int:
        """Start a command with `streams` as stdin, stdout and stderr; returns its pid, for `end`."""
        order = {
            "arguments": list(map(str, arguments)),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(environment),
            "code": code,
        }
        told = json.dumps(order).encode()
        status, tells = os.pipe()
        with self._lock, os.fdopen(tells, "wb"):
            socket.send_fds(self._ours, [_NUMBER.pack(len(told))], [*streams, tells])
            self._ours.sendall(told)
            said = _all_of(self._ours, _NUMBER.size)
        assert said, "the process that forks has ended"
        self._last = int(_NUMBER.unpack(said)[0])
        self._statuses[self._last] = status
        return self._last

    def end(self, within_s: float, pid: int | None = None) -> int:
        """Wait for a command to end; returns its exit code, or minus the signal that ended it.

        Args:
            within_s: how long to wait.
            pid: of the command; by default, the last one.

        Raises:
            TimeoutError: it did not end in time.
        """
        pid = self._last if pid is None else pid
        # Not select(): tests of `serve` have more than 1,024 descriptors open.
        ended = select.poll()
        ended.register(self._statuses[pid], select.POLLIN)
        if not ended.poll(within_s * 1000):
            raise TimeoutError
        with open(self._statuses.pop(pid), "rb") as status:
            said = status.read(_NUMBER.size)
        assert said, "the process that forks has ended"
        return int(_NUMBER.unpack(said)[0])

    def program(self) -> str:
        """A program that runs commands as `mcpproxy` does, most of them in a fork that it waits for."""
        return PROGRAM.format(python=sys.executable, place=str(self.place), late=LOADED_LATE)

    def close(self) -> None:
        """End the waiting process."""
        self._ours.close()
        self._process.wait()
        self._folder.cleanup()


@cache
def forks(loads: str = "all") -> Forks:
    """This process's `Forks` with `loads` loaded; started at the first call."""
    made = Forks(loads)
    atexit.register(made.close)
    return made


class Started(subprocess.Popen[bytes]):
    """A command that runs in a process that has loaded it already."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str],
        terminal: int | None = None,
        cwd: Path | None = None,
        code: str = "",
        stdin: int = subprocess.DEVNULL,
        loads: str = "all",
    ) -> None:
        """Start it, with pipes for stdout and stderr.

        Args:
            arguments: of the command.
            environment: its variables.
            terminal: its controlling terminal, in place of pipes.
            cwd: its working directory.
            code: Python code to run in place of the command.
            stdin: `subprocess.DEVNULL` or `subprocess.PIPE`.
            loads: see `Forks`.
        """
        self.args = [*map(str, arguments)]
        self.returncode = cast("int", None)
        self.stdin = self.stdout = self.stderr = None
        self._forks = forks(loads)
        if terminal is not None:
            self.pid = self._forks.begin(arguments, (terminal,) * 3, cwd, environment, AT_A_TERMINAL)
            return
        (out, prints), (errors, complains) = os.pipe(), os.pipe()
        self.stdout, self.stderr = open(out, "rb"), open(errors, "rb")  # noqa: SIM115 - as of any Popen
        if stdin == subprocess.PIPE:
            asks, feed = os.pipe()
            self.stdin = open(feed, "wb", 0)  # noqa: SIM115 - the same
        else:
            asks = os.open(os.devnull, os.O_RDONLY)
        theirs = (asks, prints, complains)
        try:
            self.pid = self._forks.begin(arguments, theirs, cwd, environment, code)
        finally:
            for stream in theirs:
                os.close(stream)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, by default for `DEADLINE_S`; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        within_s = DEADLINE_S if timeout is None else timeout
        if cast("int | None", self.returncode) is None:
            try:
                self.returncode = self._forks.end(within_s, self.pid)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, within_s) from None
        return self.returncode

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:  # noqa: A002
        """Read everything that it prints from now on."""
        assert input is None
        assert self.stdout is not None
        assert self.stderr is not None
        with ThreadPoolExecutor(1) as pool:
            errors = pool.submit(self.stderr.read)
            output = self.stdout.read()
            self.wait(timeout)
            return output, errors.result()

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        # It may end at this moment and is not a child of this process, so its pid can be gone at once.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def __exit__(self, *_: object) -> None:
        if self.stdin is not None:
            self.stdin.close()
        self.wait()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def __del__(self) -> None:
        """Do nothing: the process that forked it waits for it."""


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


def _load_all() -> None:
    from analysis.json_schema import validator
    from mcpproxy.check_run.examine import CheckOptions, examine_capture

    for name in (
        *_LATER,
        *_modules("captures"),
        *_modules("analysis"),
        *_modules("mcpproxy.wording"),
        *_modules("mcpproxy.report"),
    ):
        importlib.import_module(name)
    for name in _modules("mcpproxy.cli"):
        importlib.import_module(name)
    # What rules need is created when they first run.
    for _ in examine_capture(ROOT / "tests/corpus/captures/demo.mcpcap", CheckOptions()):
        pass
    validator.WORKER.close()


def _load_serve() -> None:
    for package in ("captures", "mcpproxy.wire", "mcpproxy.recorder", "mcpproxy.relay"):
        for name in _modules(package):
            importlib.import_module(name)
    importlib.import_module("mcpproxy.cli.serve")


def _load_sdk() -> None:
    importlib.import_module("tests.peers.sdk_http_server")


_LOADS: Final = {"all": _load_all, "serve": _load_serve, "sdk": _load_sdk}


@cache
def _load_rules() -> None:
    from tests import rules

    rules.load()
    gc.freeze()


def _modules(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.walk_packages(path, f"{package}.")]


def _next(orders: socket.socket, listener: socket.socket) -> dict[str, Any]:
    """Fork for each order; returns the order in the fork. This process exits when there are no more orders."""
    running: dict[int, int] = {}
    ended, wakes = os.pipe()
    for end in (ended, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    while True:
        ready, _, _ = select.select([orders.fileno(), listener.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1 << 16)
            _tell_ended(running)
        if orders.fileno() in ready:
            source = orders
        elif listener.fileno() in ready:
            source, _ = listener.accept()
        else:
            continue
        head, descriptors, _, _ = socket.recv_fds(source, _NUMBER.size, 4)
        if not head and source is orders:
            sys.exit()
        order: dict[str, Any] = json.loads(_all_of(source, _NUMBER.unpack(head)[0]))
        streams, tells = descriptors[:3], descriptors[3] if source is orders else source.detach()
        if _REDACTS & {*order["arguments"]} and "--help" not in order["arguments"]:
            _load_rules()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            orders.detach()
            listener.detach()
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            return order
        running[pid] = tells
        for stream in streams:
            os.close(stream)
        if source is orders:
            orders.sendall(_NUMBER.pack(pid))


def _tell_ended(running: dict[int, int]) -> None:
    """Report the exit code of every command that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with suppress(BrokenPipeError), open(running.pop(pid), "wb") as tells:  # no one may be waiting
            tells.write(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(order: dict[str, Any]) -> None:
    """Turn a fork into what `python -m mcpproxy` is before it runs."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = [str(ROOT / "mcpproxy/__main__.py"), *order["arguments"]]
    sys.path[0] = order["cwd"]
    encoding = order["environment"].get("PYTHONIOENCODING")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            open(number, "wb" if number else "rb", closefd=False),  # noqa: SIM115 - it is open to the end
            encoding=encoding or before.encoding,
            errors="strict" if encoding and number < 2 else before.errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _end(command: Callable[[], object]) -> NoReturn:
    """Run a command, and exit as the interpreter does, but without tearing down modules.

    That would cost three times as much as a short command itself, as it writes to all memory that forks share.
    """
    try:
        code = command()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - the interpreter prints it, too
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # as the interpreter does: it waits for the threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)


def _fork_children() -> None:
    """Make the child processes of a command forks of it, so that they do not load the same modules again."""
    from analysis import child_process

    real = subprocess.Popen

    def started(words: list[str], **how: Any) -> "subprocess.Popen[bytes]":
        boot = words.index(child_process._BOOT_CODE)
        module = words[boot + 1]
        sys.stdout.flush()
        return real(words, **how, preexec_fn=lambda: _be_child(module, how["env"]))

    made = SimpleNamespace(Popen=started, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
    vars(child_process)["subprocess"] = made


def _be_child(module: str, environment: Mapping[str, str] | None) -> NoReturn:
    """Run as the child process of a module; stdin, stdout and stderr are in place."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    try:
        importlib.import_module(module).main()
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    _LOADS[sys.argv[3]]()
    # Otherwise, garbage collection in every fork would visit all of it, and so copy it.
    gc.collect()
    gc.freeze()
    _order = _next(socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])))
    _become(_order)
    _fork_children()
    _code = compile(_order["code"], "<code>", "exec")
    _end(importlib.import_module("mcpproxy.__main__").main if not _order["code"] else lambda: exec(_code, {}))
