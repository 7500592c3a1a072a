"""Serves a recording over HTTP: Streamable HTTP of both eras, and the older HTTP+SSE.

It is served over either transport, whichever it was recorded on. A client is known by its session id, if it was given
one. Without one, it is known by its connection, or else by its program: what comes without an id belongs to the latest
conversation with that program.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs

from analysis.playback.items import HttpAnswer
from analysis.playback.script import Script
from analysis.protocol.revisions import era_of, rank_of
from captures.envelope import judge
from captures.errors import CaptureError
from mcpproxy.mock.http.client import BeginConversation, HttpClient
from mcpproxy.mock.http.connection import HttpConnection, HttpRequest, HttpResponse
from mcpproxy.mock.http.legacy import LegacyClient
from mcpproxy.mock.http.messages import EVENT_STREAM, JSON, accepts, error_body
from mcpproxy.mock.http.sessions import INITIALIZE, OPENING_ITEMS, SessionOrder
from mcpproxy.mock.http.streamable import StreamableClient, send_recorded
from mcpproxy.mock.http.streams import EventHistory
from mcpproxy.relay.http.admission import AdmissionRule

ENDPOINT: Final = "/mcp"
"""The path of Streamable HTTP."""
LEGACY_ENDPOINT: Final = "/sse"
"""The path of the stream of the older transport."""
LEGACY_POSTS: Final = "/messages"
MAX_CLIENTS: Final = 10_000
"""The maximum number of conversations; new ones end idle ones, the least recently used first."""
MAX_WAIT_S: Final = 5.0
"""How long an exchange waits until enough of the recording has been read for its answer."""
WAKE_INTERVAL_S: Final = 0.0001
"""For each client, how long the growth of the script is not looked at again: ten times what that costs."""
MAX_CLOSE_S: Final = 1.0
"""How long clients that do not read may delay the exit."""
_BACKLOG: Final = 512
_ACCEPTS_PER_TURN: Final = 2
_ALLOWED: Final = (("Allow", "GET, POST, DELETE, OPTIONS"),)
_MAX_IDENTITY_BYTES: Final = 200


class HttpMock:
    """A mock that listens.

    Attributes:
        admission: which requests are answered at all.
        body_bytes: the size of all request bodies that have begun and are not complete.
    """

    def __init__(
        self,
        script: Script,
        begin_conversation: BeginConversation,
        *,
        first_session: int | None,
        admission: AdmissionRule,
        max_connections: int,
        on_stderr: Callable[[bytes], None],
        say: Callable[[str], None],
        on_complete: Callable[[], None],
    ) -> None:
        """Create a mock that does not listen yet.

        Args:
            script: the recording.
            begin_conversation: begins a conversation that plays a recorded session.
            first_session: the number of the recorded session with which to begin; None for the first.
            admission: which requests are answered at all.
            max_connections: how many connections may be open.
            on_stderr: called with each line that the recorded server wrote to stderr.
            say: shows a line to the user.
            on_complete: called once the whole recording has been read.
        """
        self.admission = admission
        self.body_bytes = 0
        self._connections: dict[HttpConnection, None] = {}
        """The open ones, the oldest first."""
        self._max_connections = max_connections
        self._has_dropped_connection = asyncio.Event()
        self._script = script
        self._begin_conversation = begin_conversation
        self._on_stderr = on_stderr
        self._say = say
        self._on_complete: Callable[[], None] | None = on_complete
        self._order = SessionOrder(script, first_session)
        self._history = EventHistory()
        self._clients: dict[HttpClient, str | None] = {}
        """All clients, the least recently used first, with the session ids of those that have one."""
        self._client_by_id: dict[str, HttpClient] = {}
        self._client_by_identity: dict[bytes, StreamableClient] = {}
        self._gives_session_ids = False
        self._waiting: list[tuple[float, Callable[[], bool]]] = []
        """What waits for the reading: until when, and a function that returns False if it must wait longer."""
        self._wait_timer: asyncio.TimerHandle | None = None
        self._closings: set[asyncio.Future[None]] = set()
        """The conversations that are being closed."""
        self._is_woken = False
        self._next_wake_s = 0.0
        self._loop: asyncio.AbstractEventLoop
        self._server: asyncio.Server | None = None

    # ---- begin and end

    async def listen(self, listener: socket.socket) -> None:
        """Start accepting connections."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        self._server = await self._loop.create_server(
            lambda: HttpConnection(self, self._loop), sock=listener, backlog=_ACCEPTS_PER_TURN
        )
        listener.listen(_BACKLOG)  # asyncio uses a single number for accepts per turn and for the system's backlog

    def wake(self) -> None:
        """Let all clients proceed, because the script has grown; can be called in any thread."""
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._on_wake)
            except RuntimeError:  # the loop is closed
                return

    async def close(self) -> None:
        """Stop listening, and end all conversations and connections."""
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            self._remove(client)
        for connection in list(self._connections):
            connection.close()
        try:
            async with asyncio.timeout(MAX_CLOSE_S):
                while self._connections:
                    self._has_dropped_connection.clear()
                    await self._has_dropped_connection.wait()
        except TimeoutError:  # a client that does not read cannot be closed cleanly
            for connection in list(self._connections):
                connection.abort()
        await asyncio.gather(*self._closings, return_exceptions=True)

    def add_connection(self, connection: HttpConnection) -> bool:
        """Add a connection, and close the oldest idle one if there are too many; return False if none is idle."""
        if len(self._connections) >= self._max_connections:
            idle_connection = next((open_one for open_one in self._connections if open_one.is_idle), None)
            if idle_connection is not None:
                self._connections.pop(idle_connection)
                idle_connection.close()
        self._connections[connection] = None
        return len(self._connections) <= self._max_connections

    def remove_connection(self, connection: HttpConnection) -> None:
        """Remove a connection that is closed."""
        self._connections.pop(connection, None)
        self._has_dropped_connection.set()

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report in one line an error that asyncio would print with a traceback."""
        error = context.get("exception")
        if isinstance(error, CaptureError):
            self._say(str(error))
            return
        self._say(f"a fault in mcpproxy: {context['message']} ({type(error).__name__})")

    # ---- waiting for the script

    def _on_wake(self) -> None:
        if self._loop.time() < self._next_wake_s:
            self._loop.call_at(self._next_wake_s, self._on_wake)
            return
        self._is_woken = False
        self._next_wake_s = self._loop.time() + len(self._clients) * WAKE_INTERVAL_S
        if self._on_complete is not None and self._script.is_complete:
            on_complete, self._on_complete = self._on_complete, None
            on_complete()
        self._retry()
        for client in list(self._clients):
            client.proceed()

    def _wait_for_script(self, attempt: Callable[[], bool]) -> None:
        """Call a function again whenever the script has grown, until it returns True or has waited long enough."""
        self._waiting.append((self._loop.time() + MAX_WAIT_S, attempt))
        if self._wait_timer is None:
            self._wait_timer = self._loop.call_later(MAX_WAIT_S, self._on_wait_timer)

    def _on_wait_timer(self) -> None:
        self._wait_timer = None
        self._retry()
        if self._waiting:
            self._wait_timer = self._loop.call_later(MAX_WAIT_S / 10, self._on_wait_timer)

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting += [(until_s, attempt) for until_s, attempt in waiting if not attempt()]

    # ---- requests

    def on_request(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer a request by its path and method."""
        if request.method == "OPTIONS":
            response.send_whole(204, _ALLOWED, None, b"")
        elif request.path.rstrip("/") == ENDPOINT:
            self._on_endpoint(request, response)
        elif request.path == LEGACY_ENDPOINT and self._offers_legacy:
            if request.method == "GET":
                self._open_legacy(request, response)
            else:
                response.send_whole(405, (("Allow", "GET, OPTIONS"),), JSON, error_body("only GET is allowed here"))
        elif request.path == LEGACY_POSTS and self._offers_legacy:
            self._on_legacy_post(request, response)
        else:
            response.send_whole(404, (), JSON, error_body("there is nothing at this path"))

    def _on_endpoint(self, request: HttpRequest, response: HttpResponse) -> None:
        session_ids = request.fields.values_of(b"mcp-session-id")
        client = self._client_by_id.get(session_ids[0].decode("latin-1")) if session_ids else None
        if request.method not in ("GET", "POST", "DELETE"):
            response.send_whole(405, _ALLOWED, JSON, error_body("the method is not allowed"))
        elif session_ids and not isinstance(client, StreamableClient):
            response.send_whole(404, (), JSON, error_body("there is no session with this id"))
        elif request.method == "POST":
            self._on_post(request, response, client if isinstance(client, StreamableClient) else None)
        elif client is None and self._is_recorded_legacy and request.method == "GET":
            self._open_legacy(request, response)
        else:
            known_client = client if isinstance(client, StreamableClient) else self._known_client(request)
            if known_client is None:
                reason = "the request has no session id"
                response.send_whole(400 if self._gives_session_ids else 405, _ALLOWED, JSON, error_body(reason))
            elif request.method == "GET":
                self._on_get(request, response, known_client)
            else:
                self._on_delete(response, known_client)

    def _on_post(self, request: HttpRequest, response: HttpResponse, client: StreamableClient | None) -> None:
        accept_values = request.fields.values_of(b"accept")
        if request.fields.media_type != JSON.encode():
            response.send_whole(415, (), JSON, error_body("the content type must be application/json"))
        elif not accepts(accept_values, JSON) and not accepts(accept_values, EVENT_STREAM):
            response.send_whole(
                406, (), JSON, error_body("the client must accept application/json and text/event-stream")
            )
        elif client is not None:
            self._note_use(client)
            client.post(request, response)
        else:
            self._on_post_without_id(request, response)

    def _on_post_without_id(self, request: HttpRequest, response: HttpResponse) -> None:
        """Find the client of a message without a session id; `initialize` begins a session, unless a probe has."""
        verdict = judge(request.body, unit="http_body")
        is_initialize = verdict.kind == "request" and verdict.method == INITIALIZE
        client = self._known_client(request)
        if client is not None and is_initialize:
            has_begun = client.has_initialized or client.session_id is not None
            is_probe = not has_begun and self._order.has_initialize(client.session)
            client = client if is_probe else None
        elif client is None and not is_initialize and self._gives_session_ids and not _is_modern(request):
            response.send_whole(400, (), JSON, error_body("the request has no session id"))
            return
        if client is not None:
            self._note_use(client)
            self._post(client, request, response, is_initialize=is_initialize)
            return

        def begin(session: int) -> None:
            new_client = StreamableClient(
                self._begin_conversation(session, self.wake),
                session,
                self._on_stderr,
                self._history,
                lambda: self._accepted_notification(session),
                is_recorded_over_http=self._script.transport == "http",
            )
            new_client.on_session_id = lambda: self._on_session_id(new_client)
            self._add(new_client, None)
            request.connection.client = new_client
            self._client_by_identity[_identity(request)] = new_client
            self._post(new_client, request, response, is_initialize=is_initialize)

        self._begin(response, begin, is_initialize=is_initialize)

    @staticmethod
    def _post(client: StreamableClient, request: HttpRequest, response: HttpResponse, *, is_initialize: bool) -> None:
        if is_initialize:
            client.initialize(request, response)
        else:
            client.post(request, response)

    def _begin(self, response: HttpResponse, begin: Callable[[int], None], *, is_initialize: bool) -> None:
        """Call `begin` with the next recorded session, once it is known."""
        if not self._make_room():
            response.send_whole(503, (), JSON, error_body("too many sessions are open"))
            return
        deadline_s = self._loop.time() + MAX_WAIT_S

        def attempt() -> bool:
            if response.is_over:
                return True
            session = self._order.take_next(
                "handshake" if is_initialize else "other", can_wait=self._loop.time() < deadline_s
            )
            if session is not None:
                begin(session)
            return session is not None

        if not attempt():
            self._wait_for_script(attempt)

    def _on_get(self, request: HttpRequest, response: HttpResponse, client: StreamableClient) -> None:
        """Open a stream, unless the recorded server refused to."""
        if not accepts(request.fields.values_of(b"accept"), EVENT_STREAM):
            response.send_whole(406, (), JSON, error_body("the client must accept text/event-stream"))
            return
        event_ids = request.fields.values_of(b"last-event-id")
        event_id = event_ids[0].decode("utf-8", "replace") if event_ids else None
        deadline_s = self._loop.time() + MAX_WAIT_S

        def attempt() -> bool:
            if response.is_over or client.is_ended:
                response.cut()
                return True
            refusal = self._refusal(client, "GET")
            if refusal is None and not self._can_listen(client):
                if not self._script.is_complete and self._loop.time() < deadline_s:
                    return False
                response.send_whole(405, _ALLOWED, JSON, error_body("the recorded server had no such stream"))
            elif refusal is None:
                accepted = [answer for answer in self._answers_to(client, "GET") if answer.status < 300]
                client.listen(response, event_id, accepted[0] if accepted else None)
            else:
                send_recorded(response, refusal)
            return True

        self._note_use(client)
        if not attempt():
            self._wait_for_script(attempt)

    def _can_listen(self, client: StreamableClient) -> bool:
        """Whether a client can open a stream: if one did in the recording, or if that was not over HTTP."""
        if self._script.transport != "http" or self._is_recorded_legacy:
            return True
        return any(answer.status < 300 for answer in self._answers_to(client, "GET"))

    def _on_delete(self, response: HttpResponse, client: StreamableClient) -> None:
        refusal = self._refusal(client, "DELETE")
        if refusal is not None:
            send_recorded(response, refusal)
        elif client.session_id is None:
            response.send_whole(405, _ALLOWED, JSON, error_body("there is no session to end"))
        else:
            accepted = [answer for answer in self._answers_to(client, "DELETE") if answer.status < 300]
            self._remove(client)
            if accepted:
                send_recorded(response, accepted[0])
            else:
                response.send_whole(200, (), None, b"")

    def _refusal(self, client: StreamableClient, method: str) -> HttpAnswer | None:
        """Returns how a method was refused in the recorded session; None if it was once accepted, or never used."""
        answers = self._answers_to(client, method)
        if not answers or any(answer.status < 300 for answer in answers):
            return None
        return answers[-1]

    def _answers_to(self, client: StreamableClient, method: str) -> list[HttpAnswer]:
        return [
            answer
            for answer in self._script.http_answers_of(client.session)
            if answer.method == method and answer.status >= 200 and not answer.is_legacy
        ]

    def _accepted_notification(self, session: int) -> HttpAnswer | None:
        """Returns how a notification was accepted at the beginning of a recorded session; None if none was."""
        items = (self._script.items[number] for number in self._script.items_of(session)[:OPENING_ITEMS])
        exchanges = (item.exchange for item in items if item.sender == "client" and item.kind == "notification")
        answers = (self._script.http_answer(exchange) for exchange in exchanges if exchange)
        return next((answer for answer in answers if answer and 200 <= answer.status < 300), None)

    # ---- the older transport

    @property
    def _is_recorded_legacy(self) -> bool:
        """Whether the first exchange of the recording was of the older transport."""
        items = self._script.items
        exchange = next((item.exchange for item in items[:100] if item.exchange), 0)
        answer = self._script.http_answer(exchange) if exchange else None
        return answer is not None and answer.is_legacy

    @property
    def _offers_legacy(self) -> bool:
        return self._script.transport != "http" or self._is_recorded_legacy

    @property
    def endpoint(self) -> str:
        """The path to give to clients."""
        return LEGACY_ENDPOINT if self._is_recorded_legacy else ENDPOINT

    def _open_legacy(self, request: HttpRequest, response: HttpResponse) -> None:
        if not accepts(request.fields.values_of(b"accept"), EVENT_STREAM):
            response.send_whole(406, (), JSON, error_body("the client must accept text/event-stream"))
            return

        def begin(session: int) -> None:
            session_id = secrets.token_hex(16)
            client: LegacyClient = LegacyClient(
                self._begin_conversation(session, self.wake),
                session,
                self._on_stderr,
                response,
                f"{LEGACY_POSTS}?session_id={session_id}",
                lambda: self._remove(client),
            )
            self._add(client, session_id)
            client.proceed()

        self._begin(response, begin, is_initialize=True)

    def _on_legacy_post(self, request: HttpRequest, response: HttpResponse) -> None:
        values = parse_qs(request.query, max_num_fields=100, errors="replace").get("session_id", [""])
        client = self._client_by_id.get(values[0])
        if request.method != "POST":
            response.send_whole(405, (("Allow", "POST, OPTIONS"),), JSON, error_body("only POST is allowed here"))
        elif not isinstance(client, LegacyClient):
            response.send_whole(404, (), JSON, error_body("there is no session with this id"))
        else:
            client.post(request, response)

    # ---- clients

    def _known_client(self, request: HttpRequest) -> StreamableClient | None:
        """Returns the client without a session id that sends this."""
        client = request.connection.client
        if not isinstance(client, StreamableClient) or client.is_ended or client.needs_session_id:
            client = self._client_by_identity.get(_identity(request))
        if client is not None:
            request.connection.client = client
        return client

    def _add(self, client: HttpClient, session_id: str | None) -> None:
        self._clients[client] = session_id
        if session_id is not None:
            self._client_by_id[session_id] = client

    def _on_session_id(self, client: StreamableClient) -> None:
        """Identify a client by its session id from now on; only after `initialize` must it send that id."""
        self._add(client, client.session_id)
        if client.has_initialized:
            self._gives_session_ids = True
            self._forget_identity(client)

    def _forget_identity(self, client: HttpClient) -> None:
        for identity in [key for key, known in self._client_by_identity.items() if known is client]:
            del self._client_by_identity[identity]

    def _note_use(self, client: HttpClient) -> None:
        """Make a client the most recently used one."""
        self._clients[client] = self._clients.pop(client)

    def _make_room(self) -> bool:
        """End an idle client if there are too many; returns False if none is idle."""
        if len(self._clients) < MAX_CLIENTS:
            return True
        idle_client = next((client for client in self._clients if client.is_idle), None)
        if idle_client is not None:
            self._remove(idle_client)
        return idle_client is not None

    def _remove(self, client: HttpClient) -> None:
        session_id = self._clients.pop(client, None)
        if session_id is not None:
            self._client_by_id.pop(session_id, None)
        self._forget_identity(client)
        client.end()
        # Closing a conversation may take seconds, if it has a real server.
        closing = self._loop.run_in_executor(None, client.conversation.close)
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)


def _is_modern(request: HttpRequest) -> bool:
    """Whether the header of a request names a revision without sessions."""
    versions = request.fields.values_of(b"mcp-protocol-version")
    rank = rank_of(versions[0].decode("latin-1")) if versions else None
    return rank is not None and era_of(rank) == "modern"


def _identity(request: HttpRequest) -> bytes:
    return b" ".join(request.fields.values_of(b"user-agent"))[:_MAX_IDENTITY_BYTES]
