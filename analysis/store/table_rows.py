"""Builds the rows of calls, sessions, HTTP exchanges and tools for a load.

The number of rows in progress is limited.
"""

from collections import OrderedDict
from typing import Any, Final

import orjson

from analysis.conversation.call import Call, Outcome
from analysis.conversation.client_ids import NO_IDS
from analysis.conversation.failure import failed_party
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.logins import Logins
from analysis.conversation.message import Request, Response
from analysis.conversation.session import CLIENT_CAPABILITIES, Session
from analysis.conversation.trace_context import unparsed_traceparent
from analysis.facts import code_of, size_of, text_of_error, texts_in
from analysis.protocol.extensions import EXTENSION_METHODS
from analysis.protocol.revisions import REVISIONS
from analysis.store.content import answer_hash, params_hash
from analysis.store.definitions import Definition, definitions_in
from analysis.store.tables import Row, build_row
from analysis.store.values import MAX_NAME_CHARS, integer, json_text, text
from captures.record import Record

MAX_HELD_SESSIONS: Final = 10_000
"""The most sessions whose rows are held back because more messages may come."""
MAX_HELD_HTTP_EXCHANGES: Final = 10_000
"""The most HTTP exchanges whose rows are held back because more may be recorded about them after their end."""
MAX_TARGET_CHARS: Final = 4096
"""The most characters of the target of an HTTP request that are kept."""
MAX_TOOL_DEFINITIONS: Final = 50_000
"""The most tool definitions that are remembered, so that they do not count as new again."""
MAX_ID_BYTES: Final = 256
"""The most bytes of an id that are kept; no verdict has a longer one either."""
_MAX_ERROR_CHARS: Final = 300
"""The most characters of an error's text that are kept."""
MAX_REASON_CHARS: Final = 300
"""The most characters of the reason for a cancellation that are kept."""

# Enumeration members are slow to look up.
_RESULT: Final = Outcome.RESULT
_FAILED: Final = Outcome.FAILED
_KNOWN_REVISIONS: Final = frozenset(REVISIONS)


def row_of(call: Call) -> Row:
    """The row of a call, without the values at the beginning of every row of a capture."""
    request, response, outcome = call.request, call.response, call.outcome
    sent_ns, started_ns = request.t_ns, call.started_ns
    cancelled_ns, reason, is_abandoned = call.cancelled_ns, None, False
    if cancelled_ns is not None:
        reason, is_abandoned = text(call.cancel_reason, MAX_REASON_CHARS), call.abandoned_ns is not None
    code, error = error_of(response, outcome) if outcome is not _RESULT else (None, None)
    session, method, revision = call.session, request.method, call.revision
    probable_response, call_round, task, http = call.probable_answer, call.round, call.task, call.http
    ids = call.client_ids
    return (
        None if session is None else session.number,
        request.seq,
        request.index,
        None if response is None else response.seq,
        id_text(request),
        method if len(method) <= MAX_NAME_CHARS and method.isascii() else text(method),
        name_text(call.name),
        request.sender,
        revision if revision in _KNOWN_REVISIONS else text(revision),
        call.era,
        None if method not in EXTENSION_METHODS or call.extension is None else call.extension.identifier,
        outcome,
        code,
        error,
        started_ns if started_ns == sent_ns else integer(started_ns),
        call.ended_ns,
        call.has_exact_times,
        0 if started_ns == sent_ns else integer(started_ns - sent_ns),
        0 if call.spans is None else call.waiting_ns,
        _size(request),
        None if response is None else _size(response),
        call.progress,
        call.first_progress_ns,
        _failed_ns(call) if outcome is _FAILED else None,
        cancelled_ns,
        reason,
        is_abandoned,
        None if probable_response is None else integer(probable_response.seq),
        None if probable_response is None or probable_response.id is None else text(probable_response.id, None),
        call.in_flight,
        None if call_round is None else call_round.chain.number,
        None if call_round is None else call_round.number,
        None if task is None else text(task.id.value),
        call.is_app_call,
        None if http is None else integer(http.number),
        call.redirects,
        params_hash(request.body),
        None if response is None else answer_hash(response.body),
        _trace_of(call),
        *(ids if ids is NO_IDS else map(text, ids)),
    )


def _trace_of(call: Call) -> str | None:
    # The head that came before a request of the server is the client's, and about another request.
    http = call.http if call.request.sender == "client" else None
    return text(unparsed_traceparent(call.request, None if http is None else http.single_field("traceparent")))


def _failed_ns(call: Call) -> int | None:
    failure = call.failure
    return None if failure is None else failure.t_ns


class SessionRowBuilder:
    """Counts the messages of a session, and builds its row."""

    __slots__ = ("frames", "last_ns", "ready_ns", "request_capabilities", "requests", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.frames = 0
        self.requests = 0
        self.ready_ns: int | None = None
        self.last_ns: int | None = None
        self.request_capabilities: dict[str, Any] | None = None
        """The client's capabilities, declared in its last request that declares any."""

    @property
    def client_capabilities(self) -> dict[str, Any] | None:
        """What the client declared last: in a request or, if none does, in the handshake."""
        return self.session.client_capabilities if self.request_capabilities is None else self.request_capabilities

    def note_request(self, request: Request) -> None:
        """Count a request, and keep the capabilities that it declares."""
        self.requests += 1
        if request.sender == "client":
            capabilities = request.meta.get(CLIENT_CAPABILITIES)
            if isinstance(capabilities, dict):
                self.request_capabilities = capabilities

    def row(self) -> Row:
        """The row of the session."""
        session = self.session
        client, server = session.client, session.server
        return build_row(
            "sessions",
            {
                "session": session.number,
                "delimited": "guess" if session.is_guess else session.delimited,
                "transport": session.transport,
                "era": _era(session),
                "revision": text(session.revision),
                "asked": text(session.requested_revision),
                "server_name": None if server is None else text(server.name),
                "server_version": None if server is None else text(server.version),
                "client_name": None if client is None else text(client.name),
                "client_version": None if client is None else text(client.version),
                "state": session.state,
                "observed_start": session.observed_start,
                "opened_ns": integer(session.opened_ns),
                "ready_ns": integer(self.ready_ns),
                "last_ns": integer(self.last_ns),
                "frames": self.frames,
                "requests": self.requests,
                "client_capabilities": _json(self.client_capabilities),
                "server_capabilities": _json(session.server_capabilities),
            },
        )


def _json(value: Any) -> str | None:
    return None if value is None else json_text(value)


def _era(session: Session) -> str | None:
    return " and ".join(sorted(session.eras)) or None


class HttpExchangeRowBuilder:
    """Collects the times and events of an HTTP exchange, and builds its row."""

    __slots__ = (
        "ended_ns",
        "events",
        "expires_in",
        "first_byte_ns",
        "head_ns",
        "http",
        "is_stream",
        "session",
        "started_ns",
        "tunnelled",
    )

    def __init__(self, http: HttpExchange, t_ns: int) -> None:
        self.http = http
        self.started_ns: int | None = t_ns
        self.head_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.ended_ns: int | None = None
        self.is_stream = False
        self.events = 0
        self.expires_in: int | None = None
        self.tunnelled: tuple[int | None, int | None] = (None, None)

    def update(self, record: Record) -> None:
        """Update the times from an `exchange` record."""
        times = record.members.get("times")
        if isinstance(times, dict):
            self.started_ns = _stamp(times.get("request_head"), self.started_ns)
            self.head_ns = _stamp(times.get("response_head"), self.head_ns)
            self.first_byte_ns = _stamp(times.get("first_byte"), self.first_byte_ns)
            self.ended_ns = _stamp(times.get("response_end"), self.ended_ns)
        if record.members.get("stage") == "end" and self.ended_ns is None:
            self.ended_ns = record.t_ns
        oauth, tunnelled = record.members.get("oauth"), record.members.get("tunnelled")
        if isinstance(oauth, dict):
            self.expires_in = integer(oauth.get("expires_in"))
        if isinstance(tunnelled, dict):
            self.tunnelled = integer(tunnelled.get("c2s")), integer(tunnelled.get("s2c"))

    def row(self, login: int | None = None) -> Row:
        """The row of the HTTP exchange; `login` is the number of the login of which it is a leg."""
        http = self.http
        content_type = http.answer_fields.get("content-type")
        is_stream = self.is_stream or (content_type or "").lower().startswith("text/event-stream")
        return build_row(
            "http_exchanges",
            {
                "exchange": integer(http.number),
                "conn": integer(http.conn) or 0,
                "peer": text(http.peer) or None,
                "method": text(http.method) or None,
                "target": text(http.target, MAX_TARGET_CHARS) or None,
                "status": http.status if http.status is not None and abs(http.status) < 2**31 else None,
                "started_ns": integer(self.started_ns),
                "head_ns": integer(self.head_ns),
                "first_byte_ns": integer(self.first_byte_ns),
                "ended_ns": integer(self.ended_ns),
                "ended_by": text(http.ended_by),
                "request_bytes": None if http.answered_ref is None else integer(http.request_size),
                "response_bytes": None if http.end_ref is None else integer(http.response_size),
                "content_type": text(content_type),
                "session_id": text(http.session_id),
                "revision": text(http.fields.get(VERSION_FIELD)),
                "session": None if http.session is None else http.session.number,
                "is_stream": is_stream,
                "events": None if http.end_ref is None else self.events,
                "resumes": integer(http.resumed_number),
                "by_proxy": http.is_from_recorder,
                "failed_by": failed_party(http),
                "said": text(http.response_gist or http.error) or None,
                "leg": None if http.oauth is None else text(http.oauth.get("leg")),
                "login": login,
                "oauth": self._oauth(),
                "tunnelled_c2s_bytes": self.tunnelled[0],
                "tunnelled_s2c_bytes": self.tunnelled[1],
            },
        )

    def _oauth(self) -> str | None:
        """Returns what is recorded of a leg of an authorization, other than its kind, as JSON."""
        texts = self.http.oauth or {}
        facts: dict[str, Any] = {name: value for name, value in texts.items() if name != "leg"}
        if self.expires_in is not None:
            facts["expires_in"] = self.expires_in
        if self.http.has_code:
            facts["has_code"] = True
        return json_text(facts) if facts else None


def _stamp(value: object, previous: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else previous


class HttpRows:
    """The rows of the HTTP exchanges of a capture."""

    def __init__(self, rows: list[Row], start: Row, logins: Logins) -> None:
        self._rows, self._start, self._logins = rows, start, logins
        self._builders: OrderedDict[int, HttpExchangeRowBuilder] = OrderedDict()

    def builder_of(self, http: HttpExchange, t_ns: int) -> HttpExchangeRowBuilder:
        """The builder for the row of an exchange."""
        builder = self._builders.get(http.number)
        if builder is None:
            builder = self._builders[http.number] = HttpExchangeRowBuilder(http, t_ns)
            if len(self._builders) > MAX_HELD_HTTP_EXCHANGES:
                self._write(next(iter(self._builders)))
        return builder

    def _write(self, number: int) -> None:
        builder = self._builders.pop(number, None)
        if builder is not None:
            self._append(builder)

    def _append(self, builder: HttpExchangeRowBuilder) -> None:
        login = self._logins.of_exchange(builder.http.number)
        self._rows.append(self._start + builder.row(None if login is None else login.number))

    def finish(self) -> None:
        """Write all rows that are held back."""
        for builder in self._builders.values():
            self._append(builder)
        self._builders.clear()


class DefinitionRows:
    """The tool definitions that sessions have received."""

    def __init__(self, rows: list[Row], start: Row) -> None:
        self._rows, self._start = rows, start
        self._seen_definitions: OrderedDict[tuple[int, str], None] = OrderedDict()
        self.has_forgotten = False
        """Whether a definition was forgotten, and would count as new."""

    def record(self, response: Response, session: int) -> None:
        """Record the definitions in a result of `tools/list` that are new to the session."""
        for definition in definitions_in(response.result):
            self._add_definition(definition, response, session)

    def _add_definition(self, definition: Definition, response: Response, session: int) -> None:
        key = session, definition.hash
        is_known = key in self._seen_definitions
        self._seen_definitions[key] = None
        if is_known:
            self._seen_definitions.move_to_end(key)
            return
        if len(self._seen_definitions) > MAX_TOOL_DEFINITIONS:
            self._seen_definitions.popitem(last=False)
            self.has_forgotten = True
        row = {
            "session": session,
            "name": text(definition.name),
            "title": text(definition.title),
            "definition": definition.text,
            "bytes": definition.size,
            "hash": definition.hash,
            "listed": integer(response.seq),
            "t_ns": integer(response.t_ns),
        }
        self._rows.append(self._start + build_row("tools", row))


def id_text(request: Request) -> str | None:
    """The id of a request as its frame writes it, or in canonical form if the frame is not exactly one message.

    Returns None if the id is too long or not a scalar.
    """
    verdict = request.frames[0].verdict
    if request.index is None and verdict.kind == "request":
        return None if verdict.id is None else verdict.id.decode("utf-8", "replace")
    id_ = None if request.id.type in ("digest", "other") else text(request.id.text, None)
    return id_ if id_ is not None and len(id_.encode()) <= MAX_ID_BYTES else None


def name_text(name: str | None) -> str | None:
    """The name of a tool, prompt or resource, as text for a column."""
    return None if name is None else text(name)


def error_of(response: Response | None, outcome: Outcome) -> tuple[int | None, str | None]:
    """The code and the text of an error."""
    if response is None:
        return None, None
    if outcome is Outcome.ERROR:
        return integer(code_of(response)), text(text_of_error(response), _MAX_ERROR_CHARS)
    return None, text(
        next(texts_in(response.result), None), _MAX_ERROR_CHARS
    ) if outcome is Outcome.TOOL_ERROR else None


def _size(message: Request | Response) -> int:
    """The bytes of a message's frames; in a batch, only those of the message itself."""
    if message.index is None:
        return size_of(message.frames)
    try:
        return len(orjson.dumps(message.body))
    except orjson.JSONEncodeError:
        return len((json_text(message.body) or "").encode())
