"""`serve … -- COMMAND`: runs the server under the same relay as `run`, and relays HTTP in a separate thread.

So signals, the end of the server, and its end if mcpproxy is killed are handled as by `run` (`mcpproxy.relay.stdio`).
HTTP is relayed from the moment when the server listens until it has ended.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final, Protocol

from mcpproxy.cli.http_listener import set_up_process, stderr_writer
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.recorder.process_events import launch_failure_record
from mcpproxy.recorder.served_process import ServedProcessEvents
from mcpproxy.relay.http.upstream import Upstream
from mcpproxy.relay.signals import SignalWait
from mcpproxy.relay.spawn import EnvironmentBlock, SpawnError
from mcpproxy.relay.stdio import ServerExit, StdioRelay

MAX_LISTEN_S: Final = 60.0
"""How long a server may take to listen, in seconds."""
POLL_INTERVAL_S: Final = 0.05
"""The time between two attempts to connect to the server, in seconds."""
PROBE_TIMEOUT_S: Final = 1.0
"""How long one attempt may take, in seconds."""


class TrafficRelay(Protocol):
    """Relays the HTTP traffic of a server while it runs."""

    async def begin(self) -> None:
        """Start accepting clients."""

    async def end(self, ending: str, process: ServedProcessEvents, how: ServerExit) -> None:
        """End all connections, and the recording."""


class ServedCommand:
    """Runs a server, and relays its traffic."""

    def __init__(
        self,
        traffic: TrafficRelay,
        recorder: HttpRecorder,
        upstream: Upstream,
        new_loop: Callable[[], asyncio.AbstractEventLoop],
        *,
        closed: frozenset[int],
        files: int,
    ) -> None:
        """Prepare the command without starting it; no thread may be running yet.

        Args:
            traffic: the traffic to relay.
            recorder: the recorder of the traffic.
            upstream: the address on which the server will listen.
            new_loop: creates the event loop.
            closed: those of the descriptors 0, 1 and 2 that were closed when mcpproxy was started.
            files: the limit on open files for the server.
        """
        self._traffic = traffic
        self._recorder = recorder
        self._upstream = upstream
        self._process = ServedProcessEvents(recorder, self._start_loop)
        self._signal_wait = SignalWait()
        self._relay = StdioRelay(
            {2: self._process.output}, self._process, self._signal_wait, closed=closed, files=files, only_output=True
        )
        self._new_loop = new_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run_loop, name="http")
        self._has_ended = asyncio.Event()
        self._has_listened = False
        self._server_exit: ServerExit | None = None

    def run(self, command: list[bytes], environment: EnvironmentBlock) -> int:
        """Run the server, with an environment, until it ends; returns the exit status of `serve`.

        Raises:
            SpawnError: the server could not be run; the capture is closed.
        """
        try:
            self._server_exit = server_exit = self._relay.run(command, environment)
        except SpawnError as error:
            self._recorder.start_threads()
            self._recorder.writer.post(launch_failure_record(error.errno))
            asyncio.run(self._recorder.finish("failed"))
            raise
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._has_ended.set)
        self._thread.join()
        self._relay.dismiss_guard()
        if not self._has_listened:
            failure = (
                f"did not listen within {MAX_LISTEN_S:.0f} s" if self._relay.stop_reason else "ended before it listened"
            )
            stderr_writer.put(f"the server {failure} on the address in URL")
        if self._relay.stop_reason is not None:
            return 1
        return server_exit.status or (0 if self._has_listened else 1)

    def die_by_its_signal(self) -> None:
        """End this process by the signal that ended the server, unless mcpproxy itself stopped it."""
        if self._server_exit is not None and self._server_exit.signum is not None and self._relay.stop_reason is None:
            self._signal_wait.die_by(self._server_exit.signum)

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
            if await self._wait_until_listening():
                await self._traffic.begin()
                self._has_listened = True
            elif not self._has_ended.is_set():
                self._relay.stop("not_listening")
        except Exception as error:  # noqa: BLE001 - the server must not keep running without its public address
            self._recorder.faults.on_event_fault(error)
            self._relay.stop("fault")
        await self._has_ended.wait()
        assert self._server_exit is not None
        await self._traffic.end(self._server_exit.cause, self._process, self._server_exit)

    async def _wait_until_listening(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MAX_LISTEN_S
        while not self._has_ended.is_set() and loop.time() < deadline:
            if await loop.run_in_executor(None, is_listening, self._upstream):
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), POLL_INTERVAL_S)
        return False


def is_listening(upstream: Upstream) -> bool:
    """Returns whether a process listens at an address; the attempt blocks for at most a second."""
    try:
        if upstream.unix is None:
            socket.create_connection((upstream.host, upstream.port), PROBE_TIMEOUT_S).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(PROBE_TIMEOUT_S)
                probe.connect(upstream.unix)
    except (OSError, UnicodeError):
        return False
    return True
