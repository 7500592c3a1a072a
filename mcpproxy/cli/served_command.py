"""`serve … -- COMMAND`: the server runs under the same relay as with `run`, and HTTP is relayed in a thread next to it.

Signals, the end of the server, and its end if we are killed are therefore those of `run` (`mcpproxy.relay.stdio`). HTTP
is relayed from the moment when the server listens until it has ended.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final, Protocol

from mcpproxy.cli.http_listener import set_up_process, stderr_writer
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.recorder.process_events import launch_failure
from mcpproxy.recorder.served_process import ServedProcess
from mcpproxy.relay.http.upstream import Upstream
from mcpproxy.relay.signals import SignalWait
from mcpproxy.relay.spawn import EnvironmentBlock, SpawnError
from mcpproxy.relay.stdio import ServerExit, StdioRelay

LISTEN_S: Final = 60.0
"""How long a server may take until it listens."""
LOOK_S: Final = 0.05
"""The seconds between two attempts to connect to it."""
PROBE_S: Final = 1.0
"""How long one attempt may take."""


class Traffic(Protocol):
    """The HTTP traffic of a server, to be relayed while it runs."""

    async def begin(self) -> None:
        """Accept clients."""

    async def end(self, ending: str, process: ServedProcess, how: ServerExit) -> None:
        """End all connections, and the recording."""


class ServedCommand:
    """A server and its traffic."""

    def __init__(
        self,
        traffic: Traffic,
        recorder: HttpRecorder,
        upstream: Upstream,
        new_loop: Callable[[], asyncio.AbstractEventLoop],
        *,
        closed: frozenset[int],
        files: int,
    ) -> None:
        """Create it without starting anything. No thread may run yet.

        Args:
            traffic: what to relay.
            recorder: records it.
            upstream: where the server will listen.
            new_loop: makes the event loop.
            closed: which of 0, 1 and 2 we were started without.
            files: how many files the server may open.
        """
        self._traffic = traffic
        self._recorder = recorder
        self._upstream = upstream
        self._process = ServedProcess(recorder, self._start_loop)
        self._waiting = SignalWait()
        self._relay = StdioRelay(
            {2: self._process.output}, self._process, self._waiting, closed=closed, files=files, only_output=True
        )
        self._new_loop = new_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run_loop, name="http")
        self._has_ended = asyncio.Event()
        self._has_listened = False
        self._how: ServerExit | None = None

    def run(self, command: list[bytes]) -> int:
        """Run the server until it ends; returns the exit status of `serve`.

        Raises:
            SpawnError: it could not be run; the capture is closed.
        """
        try:
            self._how = how = self._relay.run(command, EnvironmentBlock())
        except SpawnError as error:
            self._recorder.start_threads()
            self._recorder.writer.post(launch_failure(error.errno))
            asyncio.run(self._recorder.finish("failed"))
            raise
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._has_ended.set)
        self._thread.join()
        self._relay.dismiss_guard()
        if not self._has_listened:
            why = f"did not listen within {LISTEN_S:.0f} s" if self._relay.stop_reason else "ended before it listened"
            stderr_writer.put(f"the server {why} on the address in URL")
        if self._relay.stop_reason is not None:
            return 1
        return how.status or (0 if self._has_listened else 1)

    def die_by_its_signal(self) -> None:
        """End as the server ended, if a signal ended it by itself."""
        if self._how is not None and self._how.signum is not None and self._relay.stop_reason is None:
            self._waiting.die_by(self._how.signum)

    def _start_loop(self) -> None:
        stderr_writer.defer()
        self._loop = self._new_loop()
        self._thread.start()

    def _run_loop(self) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(self._relay_traffic())

    async def _relay_traffic(self) -> None:
        set_up_process()
        try:
            if await self._waited_until_listening():
                await self._traffic.begin()
                self._has_listened = True
            elif not self._has_ended.is_set():
                self._relay.stop("not_listening")
        except Exception as error:  # noqa: BLE001 - the server must not run on without its address
            self._recorder.faults.in_event(error)
            self._relay.stop("fault")
        await self._has_ended.wait()
        assert self._how is not None
        await self._traffic.end(self._how.cause, self._process, self._how)

    async def _waited_until_listening(self) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + LISTEN_S
        while not self._has_ended.is_set() and loop.time() < until:
            if await loop.run_in_executor(None, is_listening, self._upstream):
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), LOOK_S)
        return False


def is_listening(upstream: Upstream) -> bool:
    """Whether a process listens at an address. The attempt blocks for a second at most."""
    try:
        if upstream.unix is None:
            socket.create_connection((upstream.host, upstream.port), PROBE_S).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(PROBE_S)
                probe.connect(upstream.unix)
    except (OSError, UnicodeError):
        return False
    return True
