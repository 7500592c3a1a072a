"""Record the servers with a URL that `mcpproxy install` has routed: one listener for each, all in this process.

While it runs, it picks up what `install` and `uninstall` change: listeners come and go with the entries that use them.
Ctrl-C or SIGTERM ends it. --service writes a unit, for systemd or launchd, that starts it when you log in.
"""

import argparse
import asyncio
import os
from typing import Final

from captures.errors import CaptureError
from captures.places import safe_name
from mcpproxy.cli.arguments import Parser, add_machine
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.listening import (
    UsageError,
    admission_of,
    bound_socket,
    checked_url,
    connection_limit,
    named_machine,
    ready_to_relay,
    seldom,
    stderr_lines,
    upstream_of,
)
from mcpproxy.cli.routes import write_service
from mcpproxy.clients.listeners import HOST, Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover
from mcpproxy.clients.state import locked, read_state, state_folder
from mcpproxy.clients.up_lock import AlreadyRunning, UpLock
from mcpproxy.clients.wrapper import NoProgram, program_words
from mcpproxy.recorder.http import HttpRecorder
from mcpproxy.relay.http.listener import HttpRelay

LOOK_S: Final = 1.0
"""How often the listeners are compared with what `install` has written."""
_OWN: Final = 2
"""How many connections' worth of descriptors a listener needs for itself."""


def parser() -> argparse.ArgumentParser:
    """The arguments of `up`."""
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
    """Listen until a signal ends it; the process ends here."""
    options = parser().parse_args(arguments)
    try:
        folder = state_folder()
        named_machine(options.machine or "")
        if options.service:
            named = ("--machine", options.machine) if options.machine else ()
            return write_service(Machine.here(), program_words(), named)
    except (OSError, NoProgram, UsageError) as error:
        return fail(str(error))
    try:
        lock = UpLock(folder)
    except (AlreadyRunning, OSError) as error:
        return fail(str(error))
    with locked() as state:
        recover(state, Machine.here())
        if state.listeners and not state.is_read:
            state.save()
    asyncio.run(_serve(lock, options.machine or ""))
    stderr_lines.flush()
    # All is closed. Leaving in the usual way would wait for threads that look for a host's name.
    os._exit(Exit.FINE)


async def _serve(lock: UpLock, machine: str) -> None:
    stopped = ready_to_relay()
    if not read_state().listeners:
        say("no server with a URL is routed yet; waiting for mcpproxy install")
    running: dict[tuple[str, int, str], _Running] = {}
    tell = seldom(stderr_lines.put)
    wanted: dict[tuple[str, int, str], Listener] = {}
    while not stopped.is_set():
        state = read_state()
        if state.is_read:  # otherwise we go on: a disk or a limit that fails must not end sessions
            wanted = {(listener.name, listener.port, listener.upstream): listener for listener in state.listeners}
        for key in running.keys() - wanted.keys():
            await running.pop(key).stop()
            stderr_lines.put(f"{key[0]} is no longer routed: its recording has ended")
        for key in wanted.keys() - running.keys():
            try:
                running[key] = await _Running.start(wanted[key], _share(len(wanted)), machine)
            except (UsageError, CaptureError, OSError, ValueError) as error:
                why = str(error).partition("; name")[0]  # what follows is advice for `serve`
                tell(f"{wanted[key].name} is not recorded and cannot be reached; still trying ({why})")
        lock.publish(port for _, port, _ in running)
        try:
            await asyncio.wait_for(stopped.wait(), LOOK_S)
        except TimeoutError:
            continue
    await asyncio.gather(*(listener.stop() for listener in running.values()))


def _share(listeners: int) -> int:
    """How many connections each listener may have; the listeners and their captures need descriptors, too."""
    return max(1, connection_limit(None) // listeners - _OWN)


class _Running:
    """One listener with its recorder."""

    def __init__(self, relay: HttpRelay, recorder: HttpRecorder) -> None:
        self._relay = relay
        self._recorder = recorder

    @classmethod
    async def start(cls, listener: Listener, most: int, machine: str) -> "_Running":
        """Begin a capture and listen.

        Raises:
            UsageError: the port is taken, or the upstream's address is wrong.
            CaptureError: the capture cannot be created.
        """
        upstream = upstream_of(checked_url(listener.upstream))
        place = f"{HOST}:{listener.port}"
        bound = bound_socket(place, beyond=False)
        try:
            recorder = HttpRecorder(
                listener.upstream,
                seldom(stderr_lines.put),
                name=listener.name,
                capture=os.path.join(listener.capture, safe_name(listener.name), "") if listener.capture else None,
                listen=place,
                via=None if upstream.proxy is None else f"{upstream.proxy[0]}:{upstream.proxy[1]}",
                opt_outs=["rewrite-location"],
                machine=named_machine(machine or listener.machine),
            )
        except BaseException:
            bound.close()
            raise
        relay = HttpRelay(upstream, admission_of([]), recorder, recorder.tell, most=most)
        recorder.start()
        await relay.listen(bound)
        stderr_lines.put(f"recording {listener.name} on {place} to {recorder.path}")
        return cls(relay, recorder)

    async def stop(self) -> None:
        """Close all connections and the capture."""
        await self._relay.close()
        await self._recorder.finish("signal")
