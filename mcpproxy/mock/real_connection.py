"""The connection to a real server, through a recorder: threads that start it, send to it and receive from it."""

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from captures.addresses import is_web_address
from captures.errors import CaptureError
from captures.file import choose_path
from captures.paths import SUFFIX, captures_root, safe_name
from captures.redact import server_name
from mcpproxy.replay.arrivals import Arrival, Arrivals
from mcpproxy.replay.conversation import Outgoing as ClientUnit
from mcpproxy.replay.http import HttpOptions, HttpRecorder, HttpTransport, StartError
from mcpproxy.replay.stdio import StdioTransport
from mcpproxy.sanitise import sanitise, sanitise_bytes

_END_TIMEOUT_S: Final = 10.0
_MAX_NAME_CHARS: Final = 48
_OWN_SUFFIX: Final = "-mock"
"""Ends the name of the server in a new capture in the user's data directory, so that it is not the newest recording of
the server itself."""
_CHECK_S: Final = 1.0
"""How often the threads look whether the connection is to be closed."""


class RealConnection:
    """A connection that is started in a thread. Only the thread that creates it calls it."""

    def __init__(
        self,
        target: Sequence[str],
        capture: str | None,
        http_options: HttpOptions,
        on_arrival: Callable[[], None],
        on_notice: Callable[[str], None],
    ) -> None:
        """Begin to start the recorder and the server.

        Args:
            target: the server's command, or its URL alone.
            capture: the path of the new capture, or a folder; None for that of a server `NAME-mock` in the user's data
                directory. If there is such a file, the next free name is taken.
            http_options: how a server with a URL is used.
            on_arrival: is called in another thread when something has arrived.
            on_notice: is called in another thread with a sanitised line for the user.
        """
        self._target, self._capture, self._http_options = target, capture, http_options
        self._on_arrival, self._on_notice = on_arrival, on_notice
        self._transport: StdioTransport | HttpTransport | None = None
        self._recorder: HttpRecorder | None = None
        """The recorder in front of a server with a URL."""
        self._outbox: queue.SimpleQueue[ClientUnit | None] = queue.SimpleQueue()
        self._arrivals = Arrivals()
        self._is_closing = threading.Event()
        self._sender = threading.Thread(target=self._send_all, name="real-server", daemon=True)
        self._sender.start()

    def send(self, unit: ClientUnit) -> None:
        """Send a unit of bytes once the server has started, after those that wait already."""
        self._outbox.put(unit)

    def arrivals(self) -> Iterable[Arrival]:
        """Yields what has arrived so far."""
        while (arrival := self._arrivals.get(0.0)) is not None:
            yield arrival

    def close(self) -> None:
        """End the connection and the recorder; wait until both have ended, but at most some seconds."""
        self._is_closing.set()
        self._arrivals.close()
        self._outbox.put(None)
        self._sender.join(_END_TIMEOUT_S)
        if self._sender.is_alive():
            self._end()

    # ---- in the threads

    def _send_all(self) -> None:
        try:
            transport = self._transport = self._start()
        except (CaptureError, OSError, StartError) as error:
            self._put(Arrival(reason=f"it cannot be started: {error}", is_end=True))
            return
        threading.Thread(target=self._receive_all, args=(transport,), name="real-server-output", daemon=True).start()
        while (unit := self._outbox.get()) is not None:
            reason = transport.send(unit)
            if reason is not None and not unit.calls:
                self._on_notice(f"a message of the client was not passed on: {reason}")
            elif reason is not None:
                self._put(Arrival(failed_calls=unit.calls, reason=f"it was not sent: {reason}"))
        self._end()

    def _start(self) -> StdioTransport | HttpTransport:
        word = os.fsencode(self._target[0])
        is_url = len(self._target) == 1 and is_web_address(word)
        url = urlsplit(self._target[0]) if is_url else None
        name = safe_name(url.netloc.rpartition("@")[2] if url else server_name([*map(os.fsencode, self._target)]))
        if self._capture is None:
            name = f"{name[:_MAX_NAME_CHARS]}{_OWN_SUFFIX}"
        path = _new_path(self._capture, name)
        transport: StdioTransport | HttpTransport
        if is_url:
            self._recorder = HttpRecorder(self._target[0], path, name)
            transport = HttpTransport(self._recorder.url, self._http_options)
        else:
            transport = StdioTransport(self._target, path, name)
        self._on_notice(f"what was not recorded goes to the real server, and is recorded in {sanitise(path, None)}")
        return transport

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._recorder is not None:
            self._recorder.end()

    def _receive_all(self, transport: StdioTransport | HttpTransport) -> None:
        is_end = False
        while not is_end and not self._is_closing.is_set():
            arrival = transport.next_arrival(_CHECK_S)
            if arrival is None:
                continue
            is_end = arrival.is_end
            if is_end and isinstance(transport, StdioTransport):
                transport.child.await_end(_CHECK_S)  # the last line on stderr may say why
                lines = transport.child.last_lines
                arrival = arrival._replace(reason=": ".join([arrival.reason, *map(sanitise_bytes, lines[-1:])]))
            self._put(arrival)

    def _put(self, arrival: Arrival) -> None:
        if self._arrivals.put(arrival):
            self._on_arrival()


def _new_path(capture: str | None, name: str) -> str:
    """Returns a path for a new capture.

    Raises:
        CaptureError: it cannot be created there.
    """
    folder = "" if capture is not None else os.path.join(captures_root(), name)
    path = choose_path(capture, folder, time.time_ns())
    stem = path.removesuffix(SUFFIX)
    numbers = itertools.count(2)
    while os.path.lexists(path):
        path = f"{stem}-{next(numbers)}{SUFFIX}"
    return path
