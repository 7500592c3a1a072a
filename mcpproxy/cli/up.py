"""Record the HTTP servers that `mcpproxy install` routed, with one listener per server, all in this process.

While it runs, it picks up what `install` and `uninstall` change: listeners come and go with the entries that use them.
Ctrl-C or SIGTERM ends it. --service writes a unit, for systemd or launchd, that starts it when you log in.
"""

import argparse
import asyncio
import os
import time
from contextlib import ExitStack, suppress
from typing import Final

from captures.errors import CaptureError
from captures.paths import safe_name
from mcpproxy.cli.arguments import Parser, add_machine
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.http_listener import (
    UsageError,
    admission_of,
    checked_machine_name,
    connection_limit,
    open_listener,
    parse_upstream_url,
    prepare_to_relay,
    rate_limited,
    stderr_writer,
    upstream_of,
)
from mcpproxy.cli.routes import write_service
from mcpproxy.clients.listeners import HOST, Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover_records
from mcpproxy.clients.state import lock_state, read_state, state_folder
from mcpproxy.clients.up_lock import AlreadyRunning, UpLock
from mcpproxy.clients.wrapper import NoProgram, program_words
from mcpproxy.recorder.http import HttpRecorder, UnrecordedListener
from mcpproxy.recorder.unrecorded import keep_note
from mcpproxy.relay.http.listener import HttpRelay
from mcpproxy.relay.http.shared import SharedState
from mcpproxy.relay.http.upstream import Upstream

POLL_S: Final = 1.0
"""The interval at which the listeners are compared with the records of `install`."""
RETRY_S: Final = 5.0
"""How long to wait before another attempt to create a capture."""
_CONNECTIONS_PER_LISTENER: Final = 2
"""How many connections could use the descriptors that a listener itself needs."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `up`."""
    parser = Parser("up", __doc__)
    parser.add_argument(
        "--service", action="store_true", help="write a unit that starts `mcpproxy up` when you log in, and exit"
    )
    add_machine(
        parser,
        "the name of this machine in the captures (default: the one that `install --machine` wrote, MCPPROXY_MACHINE, "
        "or the host name)",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Listen until a signal arrives, then end the process; returns the exit code if it cannot start."""
    options = parser().parse_args(arguments)
    try:
        folder = state_folder()
        checked_machine_name(options.machine or "")
        if options.service:
            machine_options = ("--machine", options.machine) if options.machine else ()
            return write_service(Machine.current(), program_words(), machine_options)
    except (OSError, NoProgram, UsageError) as error:
        return fail(str(error))
    try:
        lock = UpLock(folder)
    except (AlreadyRunning, OSError) as error:
        return fail(str(error))
    with lock_state() as state:
        known_count = len(state.listeners)
        recover_records(state, Machine.current())
        if len(state.listeners) > known_count or (state.listeners and not state.is_complete):
            state.save()
    asyncio.run(_serve(lock, options.machine or ""))
    stderr_writer.flush()
    # Everything is closed. A normal exit would wait for threads that are resolving host names.
    os._exit(Exit.FINE)


async def _serve(lock: UpLock, machine: str) -> None:
    stopped = prepare_to_relay()
    if not read_state().listeners:
        say("no HTTP server is routed yet; waiting for mcpproxy install")
    running_listeners: dict[tuple[str, int, str], _RunningListener] = {}
    print_rarely = rate_limited(stderr_writer.put)
    wanted_listeners: dict[tuple[str, int, str], Listener] = {}
    while not stopped.is_set():
        # A failing disk, a limit, or the records of a later version must not end sessions.
        with suppress(OSError):
            state = read_state()
            if state.is_complete:
                wanted_listeners = {
                    (listener.name, listener.port, listener.upstream): listener for listener in state.listeners
                }
        for key in running_listeners.keys() - wanted_listeners.keys():
            await running_listeners.pop(key).stop()
            stderr_writer.put(f"{key[0]} is no longer routed: its recording has ended")
        for key in (key for key in wanted_listeners if key not in running_listeners):  # in the order of the records
            try:
                running_listeners[key] = await _RunningListener.start(
                    wanted_listeners[key], _connections_per_listener(len(wanted_listeners)), machine
                )
            except (UsageError, OSError, ValueError) as error:
                reason = str(error).partition("; name")[0]  # the rest is advice for `serve`
                print_rarely(
                    f"{wanted_listeners[key].name} is not recorded and cannot be reached; still trying ({reason})"
                )
        for listener in running_listeners.values():
            listener.retry_recording()
        lock.publish_ports(port for _, port, _ in running_listeners)
        try:
            await asyncio.wait_for(stopped.wait(), POLL_S)
        except TimeoutError:
            continue
    await asyncio.gather(*(listener.stop() for listener in running_listeners.values()))


def _connections_per_listener(listeners: int) -> int:
    """Return how many connections each listener may have; listeners and captures need descriptors, too."""
    return max(1, connection_limit(None) // listeners - _CONNECTIONS_PER_LISTENER)


class _RunningListener:
    """A running listener with its recorder.

    If no capture can be created, for example because the disk is full, clients can still reach the server, unrecorded.
    """

    def __init__(self, listener: Listener, upstream: Upstream, max_connections: int, machine: str) -> None:
        self._listener, self._upstream, self._machine = listener, upstream, machine
        shared = SharedState(
            upstream,
            admission_of([]),
            UnrecordedListener(),
            rate_limited(stderr_writer.put),
            rewrites=True,
            most=max_connections,
        )
        self._relay = HttpRelay(shared)
        self._recorder: HttpRecorder | None = None
        self._note = ExitStack()
        """The context that keeps a note for other commands while nothing is recorded."""
        self._next_attempt_s = 0.0
        """The monotonic time of the next attempt to create a capture."""

    @classmethod
    async def start(cls, listener: Listener, max_connections: int, machine: str) -> "_RunningListener":
        """Begin a capture, if that is possible, and listen; returns the running listener.

        Raises:
            UsageError: the port is in use, or the upstream's address is invalid.
        """
        upstream = upstream_of(parse_upstream_url(listener.upstream))
        listening_socket = open_listener(f"{HOST}:{listener.port}", beyond=False)
        try:
            running = cls(listener, upstream, max_connections, machine)
            if (reason := running._begin_capture()) is not None:
                stderr_writer.put(f"{listener.name} is not recorded, but can be reached; still trying ({reason})")
                running._note.enter_context(keep_note(safe_name(listener.name), reason))
            await running._relay.listen(listening_socket)
        except BaseException:
            listening_socket.close()
            raise
        return running

    def retry_recording(self) -> None:
        """Try to create a capture if there is none and it is time for another attempt, to record later connections."""
        if self._recorder is None and time.monotonic() >= self._next_attempt_s and self._begin_capture() is None:
            self._note.close()

    def _begin_capture(self) -> str | None:
        """Begin a capture; returns the reason if that is not possible, or None."""
        listener, proxy = self._listener, self._upstream.proxy
        address = f"{HOST}:{listener.port}"
        try:
            recorder = HttpRecorder(
                listener.upstream,
                rate_limited(stderr_writer.put),
                name=listener.name,
                capture=os.path.join(listener.capture, safe_name(listener.name), "") if listener.capture else None,
                listen=address,
                via=None if proxy is None else f"{proxy[0]}:{proxy[1]}",
                opt_outs=["rewrite-location"],
                machine=checked_machine_name(self._machine or listener.machine),
            )
        except (CaptureError, OSError) as error:
            self._next_attempt_s = time.monotonic() + RETRY_S
            return str(error).partition("; name")[0]
        recorder.start()
        self._recorder = recorder
        self._relay.set_observer(recorder)
        stderr_writer.put(f"recording {listener.name} on {address} to {recorder.path}")
        return None

    async def stop(self) -> None:
        """Close all connections and the capture."""
        await self._relay.close()
        self._note.close()
        if self._recorder is not None:
            await self._recorder.finish("signal")
