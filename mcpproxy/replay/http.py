"""Replays to a server that has a URL: requests to the recorder in front of it, and the streams that come back."""

import contextlib
import http.client
import select
import signal
import socket
import threading
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from analysis.conversation.message import Response
from analysis.playback.incoming import MAX_MESSAGE_BYTES, server_messages_in
from analysis.playback.request_fields import Fields
from mcpproxy.clients.probe import MAX_REDIRECTS, next_url
from mcpproxy.replay.arrivals import Arrival, Arrivals
from mcpproxy.replay.conversation import MAX_UNANSWERED, Outgoing
from mcpproxy.replay.http_fields import VERSION_FIELD, Arguments, post_fields
from mcpproxy.replay.recorder_child import RecorderChild
from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.wire.sse import Event, EventSplitter

_BODY_BYTES: Final = MAX_MESSAGE_BYTES + 1
"""How much of a body or an event is kept."""
MAX_CONCURRENT: Final = 64
"""The most requests that wait for answers; others wait until one is answered."""
_MAX_RESUMPTIONS: Final = 100
"""How often a stream is resumed at most."""
_MAX_RETRY_S: Final = 30.0
_END_TIMEOUT_S: Final = 5.0
"""How long the server may take to end the session."""
_START_TIMEOUT_S: Final = 30.0
_STREAM_TIMEOUT_S: Final = 1.0
"""How long the start of the stream for the server's own messages is waited for."""
_MAX_SESSION_ID_CHARS: Final = 4 << 10
_REFUSED: Final = (401, 403)
_ADVICE: Final = "use --header to send credentials"
_REFUSED_ADVICE: Final = "the credentials of --header were refused"
_REFUSAL_FIELD: Final = "Mcpproxy-Refused"
"""The header field of a response that the recorder gives in the place of the server; its body says why."""
_MAX_REFUSAL_BYTES: Final = 500
_FAILURES: Final = (OSError, http.client.HTTPException, ValueError)
_SESSION_FIELD: Final = "Mcp-Session-Id"
_ACCEPTS_STREAM: Final = ("Accept", "text/event-stream")


class StartError(Exception):
    """Raised if the recorder in front of the server does not start; the message says why. Untrusted text."""


class HttpOptions(NamedTuple):
    """How a server with a URL is used."""

    fields: Mapping[str, str]
    """Header fields that every request gets, such as credentials."""
    timeout_s: float
    """How long the server may take to accept a message without a request."""
    is_legacy: bool = False
    """Whether it speaks the older transport, HTTP+SSE."""
    opens_stream: bool = True
    """Whether it opens a stream for the server's own messages."""
    ends_session: bool = True
    """Whether it ends the session with DELETE."""
    arguments: Arguments = {}  # noqa: RUF012 # nothing changes it
    """The arguments of tools that headers repeat."""
    limit: int | None = None
    """What the server may send, see `Arrivals`."""


class _Stream(NamedTuple):
    """Where a stream was when it ended."""

    last_id: str | None
    retry_s: float
    answer_count: int = 0
    """How many responses came in it."""


class HttpRecorder:
    """The recorder in front of a server with a URL, for any number of sessions."""

    def __init__(self, url: str, capture: str, name: str) -> None:
        """Start it.

        Args:
            url: the server's URL.
            capture: the path of the new capture.
            name: the server's name in it.

        Raises:
            StartError: it does not start.
            OSError: it cannot be started.
        """
        self._child = RecorderChild(["serve", url, "--listen", "127.0.0.1:0", f"--capture={capture}", f"--name={name}"])
        ready, _, _ = select.select([self._child.stdout], [], [], _START_TIMEOUT_S)
        line = self._child.stdout.readline() if ready else b""
        if not line.startswith(b"http"):
            self.end()
            last = self._child.last_lines[-1:] or [b"the recorder did not start"]
            raise StartError(last[0].decode("utf-8", "backslashreplace").removeprefix("mcpproxy: "))
        self.url = line.strip().decode("utf-8", "replace")
        """The URL to which clients send requests."""

    def end(self) -> int:
        """End the recorder, and return its exit status."""
        self._child.stdout.close()
        return self._child.end((signal.SIGTERM, signal.SIGKILL))


class HttpTransport:
    """A client of one MCP session over HTTP. Only the thread that creates it calls it."""

    def __init__(self, url: str, options: HttpOptions) -> None:
        """Begin a session; only with the older transport, something is sent already.

        Args:
            url: the URL of the recorder in front of the server.
            options: how the server is used.
        """
        self._url, self._options = url, options
        self._arrivals = Arrivals(options.limit)
        self._slots = threading.Semaphore(MAX_CONCURRENT)
        self._closing = threading.Event()
        self._connections: set[http.client.HTTPConnection] = set()
        self._exchanges: dict[int, http.client.HTTPConnection] = {}
        """The connection of each call that waits for its answer."""
        self._abandoned: set[int] = set()
        self._session_id: str | None = None
        self._version: str | None = None
        self._unaccepted_count = 0
        """How many messages without a request the server did not accept in time, one after the other."""
        self._endpoint = threading.Event()
        self._has_stream = False
        if options.is_legacy:
            self._start_stream(waits_s=options.timeout_s)

    # ---- sending

    @property
    def is_ready(self) -> bool:
        """Whether more can be sent now."""
        if not self._slots.acquire(blocking=False):
            return False
        self._slots.release()
        return True

    def send(self, outgoing: Outgoing) -> None:
        """Send a unit of bytes in a POST; if it has no request in it, wait until the server has accepted it."""
        self._version = outgoing.version
        if outgoing.abandoned is not None:
            self._abandon(outgoing.abandoned)
            return
        if self._unaccepted_count >= MAX_UNANSWERED:
            return
        if self._options.is_legacy and not self._endpoint.is_set():
            self._arrivals.put(Arrival(failed_calls=outgoing.calls, reason="the server named no endpoint"))
            return
        fields = post_fields(outgoing, self._options.arguments)
        try:
            connection = self._request("POST", outgoing.raw, fields)
        except _FAILURES as error:
            self._arrivals.put(Arrival(failed_calls=outgoing.calls, reason=_reason(error)))
            return
        if outgoing.calls:
            if connection.sock is not None:
                connection.sock.settimeout(None)  # the conversation knows how long to wait
            self._exchanges |= dict.fromkeys(outgoing.calls, connection)
            self._slots.acquire()
            threading.Thread(target=self._await_response, args=(connection, outgoing), daemon=True).start()
            return
        self._read_response(connection, outgoing)
        if self._unaccepted_count >= MAX_UNANSWERED:
            reason = f"{MAX_UNANSWERED} messages in a row were not accepted in time"
            self._arrivals.put(Arrival(reason=reason, is_end=True))
        if outgoing.method == "notifications/initialized" and self._options.opens_stream and not self._has_stream:
            self._start_stream(waits_s=_STREAM_TIMEOUT_S)

    def _abandon(self, call: int) -> None:
        """Close the exchange of a call."""
        self._abandoned.add(call)
        connection = self._exchanges.get(call)
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def next_arrival(self, timeout_s: float) -> Arrival | None:
        """Return what has come from the server, or None if nothing comes within a time in seconds."""
        return self._arrivals.get(timeout_s)

    def close(self, version: str | None = None) -> None:
        """End the session and all connections.

        Args:
            version: the revision that `initialize` agreed on.
        """
        self._version = version
        self._closing.set()
        self._arrivals.close()
        if self._session_id is not None and self._options.ends_session:
            with contextlib.suppress(*_FAILURES):
                connection = self._request(
                    "DELETE", None, self._version_fields(), min(self._options.timeout_s, _END_TIMEOUT_S)
                )
                connection.getresponse().read(_BODY_BYTES)
                connection.close()
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _request(
        self, method: str, body: bytes | None, fields: Fields, timeout_s: float | None = None
    ) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=timeout_s or self._options.timeout_s
        )
        session = () if self._session_id is None else ((_SESSION_FIELD, self._session_id),)
        given = {name.lower() for name in self._options.fields}
        kept = [(name, value) for name, value in (*fields, *session) if name.lower() not in given]
        connection.putrequest(method, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
        for name, value in (*kept, *self._options.fields.items()):
            connection.putheader(name, value.encode("latin-1", "replace"))
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        self._connections.add(connection)
        return connection

    def _version_fields(self) -> Fields:
        """Returns the header field with which requests without a message name the revision."""
        return () if self._version is None or self._options.is_legacy else ((VERSION_FIELD, self._version),)

    # ---- receiving

    def _await_response(self, connection: http.client.HTTPConnection, outgoing: Outgoing) -> None:
        try:
            self._read_response(connection, outgoing)
        finally:
            for call in outgoing.calls:
                self._exchanges.pop(call, None)
            self._slots.release()

    def _read_response(self, connection: http.client.HTTPConnection, outgoing: Outgoing) -> None:
        """Pass on what comes in the response to a POST, and in the streams that resume it."""
        fields = post_fields(outgoing, self._options.arguments)
        reason = ""
        try:
            response = connection.getresponse()
            for _ in range(MAX_REDIRECTS):
                target = next_url(self._url, "POST", response.status, response.getheader("location") or "")
                if target is None:
                    break
                self._drop(connection)
                self._url = target
                connection = self._request("POST", outgoing.raw, fields)
                response = connection.getresponse()
            if self._session_id is None:
                self._note_session_id(response)
            refusal = _refusal_in(response)
            stream = None if refusal else self._pass_on(response, outgoing.calls)
            missing = len(outgoing.calls)
            for _ in range(_MAX_RESUMPTIONS):
                missing -= 0 if stream is None else stream.answer_count
                if stream is None or stream.last_id is None or missing <= 0 or self._closing.wait(stream.retry_s):
                    break
                if self._abandoned.issuperset(outgoing.calls):
                    break
                self._drop(connection)
                connection, stream = self._resume(stream, outgoing.calls)
            if not (self._options.is_legacy and response.status < http.client.BAD_REQUEST):
                reason = refusal or self._reason_of(response.status)
            self._unaccepted_count = 0
        except _FAILURES as error:
            reason = _reason(error)
            self._unaccepted_count += isinstance(error, TimeoutError)
        self._drop(connection)
        if reason and outgoing.calls:
            self._arrivals.put(Arrival(failed_calls=outgoing.calls, reason=reason))

    def _reason_of(self, status: int) -> str:
        """Returns why there is no answer in a response with an HTTP status."""
        advice = f"; {_REFUSED_ADVICE if self._options.fields else _ADVICE}" if status in _REFUSED else ""
        return f"HTTP status {status} without an answer{advice}"

    def _resume(self, stream: _Stream, calls: tuple[int, ...]) -> tuple[http.client.HTTPConnection, _Stream | None]:
        resumes = _ACCEPTS_STREAM, ("Last-Event-ID", stream.last_id or "")
        connection = self._request("GET", None, (*resumes, *self._version_fields()))
        response = connection.getresponse()
        if response.status != http.client.OK:
            return connection, None
        resumed = self._pass_on(response, calls)
        if resumed is None:
            return connection, None
        return connection, resumed._replace(last_id=resumed.last_id or stream.last_id)

    def _note_session_id(self, response: http.client.HTTPResponse) -> None:
        session_id = response.getheader(_SESSION_FIELD)
        if session_id and session_id.isascii() and session_id.isprintable() and len(session_id) < _MAX_SESSION_ID_CHARS:
            self._session_id = session_id

    def _pass_on(self, response: http.client.HTTPResponse, calls: tuple[int, ...] = ()) -> _Stream | None:
        """Pass on the messages in the response to some calls; returns where it ended if it was a stream."""
        media_type = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
        if media_type == "text/event-stream":
            return self._pass_on_events(response, calls)
        body = response.read(_BODY_BYTES)
        while response.read(_BODY_BYTES):
            body = b""
        if body and media_type == "application/json":
            self._arrivals.put(Arrival(body, calls))
        return None

    def _pass_on_events(self, response: http.client.HTTPResponse, calls: tuple[int, ...]) -> _Stream:
        splitter = EventSplitter(_BODY_BYTES)
        last_id, retry_s, answer_count = None, 1.0, 0
        with contextlib.suppress(*_FAILURES):
            while chunk := response.read1(1 << 16):
                for event in splitter.feed(chunk):
                    if event.has_id and event.id is not None:
                        text = event.id.decode("utf-8", "replace")
                        last_id = text if text.isprintable() and text.isascii() else None
                    if event.retry is not None:
                        retry_s = min(event.retry / 1000, _MAX_RETRY_S)
                    answer_count += self._pass_on_event(event, calls)
        return _Stream(last_id, retry_s, answer_count)

    def _pass_on_event(self, event: Event, calls: tuple[int, ...]) -> int:
        """Pass on an event, or follow it; returns how many responses are in it."""
        if event.event == b"endpoint" and self._options.is_legacy and not self._endpoint.is_set() and event.data:
            target = urljoin(self._url, event.data.decode("utf-8", "replace").strip())
            if urlsplit(target)[:2] == urlsplit(self._url)[:2]:
                self._url = target
                self._endpoint.set()
        elif event.data and event.event in (b"", b"message") and event.is_whole and not event.part_number:
            self._arrivals.put(Arrival(event.data, calls))
            return sum(isinstance(message, Response) for message in server_messages_in(event.data))
        return 0

    # ---- the stream for the server's own messages

    def _start_stream(self, waits_s: float) -> None:
        self._has_stream = True
        is_open = threading.Event()
        threading.Thread(target=self._read_stream, args=(is_open,), daemon=True).start()
        (self._endpoint if self._options.is_legacy else is_open).wait(waits_s)

    def _read_stream(self, is_open: threading.Event) -> None:
        stream = _Stream(None, 0.0)
        with contextlib.suppress(*_FAILURES):
            for _ in range(_MAX_RESUMPTIONS):
                resumes = () if stream.last_id is None else (("Last-Event-ID", stream.last_id),)
                connection = self._request("GET", None, (_ACCEPTS_STREAM, *resumes, *self._version_fields()))
                response = connection.getresponse()
                is_open.set()
                if connection.sock is not None:
                    connection.sock.settimeout(None)
                ended = self._pass_on(response) if response.status == http.client.OK else None
                self._drop(connection)
                if ended is None or self._options.is_legacy or self._closing.wait(ended.retry_s):
                    break
                stream = ended._replace(last_id=ended.last_id or stream.last_id)
        is_open.set()
        if self._options.is_legacy:
            self._arrivals.put(Arrival(reason="the server ended the stream", is_end=True))

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._connections.discard(connection)
        connection.close()


def _refusal_in(response: http.client.HTTPResponse) -> str:
    """Returns why the recorder responded in the place of the server, sanitised; empty if the server did."""
    if response.getheader(_REFUSAL_FIELD) is None:
        return ""
    text = response.read(_MAX_REFUSAL_BYTES).strip().removeprefix(b"mcpproxy: ")
    return sanitise_bytes(text.replace(b"the upstream", b"the server"))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server did not respond in time"
    return f"the connection ended without a response ({type(error).__name__})"
