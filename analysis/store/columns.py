"""Defines the columns of all tables in one place: name, type, meaning, and how each value is obtained.

The statements that create the tables, their comments, docs/sql.md, and the columns of Parquet, Arrow and Spark are all
generated from these definitions, so a new column needs only a line here and its value in the row. `capture` is the same
in all tables: the id in the capture's header. Records, sessions and exchanges have the same numbers as in every other
command. Many times come in two forms: `t_ns`, nanoseconds since the capture opened, for arithmetic; `time`, wall clock
in UTC, for people.

Every program that opens captures imports this module, so it imports next to nothing itself.
"""

from typing import Final, Literal, NamedTuple

from analysis.protocol.revisions import FIRST_MODERN_REVISION, LAST_HANDSHAKE_REVISION
from captures.ambiguity import DUPLICATE_MEMBER

_PORTABLE_TYPES: Final = {"TIMESTAMP_NS": "TIMESTAMP", "JSON": "VARCHAR"}
"""Replacements for types that not all readers of Parquet and Arrow know. Nanoseconds are in `t_ns`, and JSON is
text."""


class GivenValue(NamedTuple):
    """A value that Python supplies. Every row begins with that of `capture`."""


class ComputedValue(NamedTuple):
    """A value that SQL computes from others when a batch is inserted."""

    sql: str
    """`clock(x)` stands for the wall clock at `x` nanoseconds after the capture opened."""
    given: tuple[str, str] | None = None
    """The name and type of the value from which it is computed, which rows contain in its place."""


class GeneratedValue(NamedTuple):
    """A value that is not stored, but computed when it is read."""

    sql: str


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    """Its type, as DuckDB writes it."""
    null: Literal["null", "not null"]
    """Whether it may be NULL."""
    meaning: str
    source: GivenValue | ComputedValue | GeneratedValue = GivenValue()

    @property
    def portable(self) -> str:
        """The type in Parquet files and Arrow batches, as DuckDB writes it."""
        return _PORTABLE_TYPES.get(self.type, self.type)


class Table(NamedTuple):
    """One table."""

    name: str
    row: str
    """The meaning of a row: `one row per …`."""
    example: str
    """A query that shows what it is for."""
    columns: tuple[Column, ...]


# One line for each column, however long its meaning.
# fmt: off
_CAPTURE: Final = Column("capture", "VARCHAR", "not null", "id of the capture")
_TIME: Final = Column("time", "TIMESTAMP_NS", "null", "the same time, UTC", ComputedValue("clock(t_ns)"))
_CAPTURES: Final = Table(
    "captures",
    "one row per capture",
    "select server, client_program, opened, duration_ns / 1e9 as seconds, frames, lost from captures order by opened",
    (
        Column("capture", "VARCHAR", "not null", "id of the capture: the one in its header, 32 hex digits; a hash of its path if the header is lost, or if a larger file in another state has that id"),
        Column("server", "VARCHAR", "null", "name of the captured server: given by the user, or guessed from the command or URL"),
        Column("path", "VARCHAR", "not null", "file of its first segment"),
        Column("transport", "VARCHAR", "null", "stdio, http or import (converted from a trace or log of another tool); NULL if the header is lost"),
        Column("command", "VARCHAR", "null", "the command that was run, with words that could be secrets replaced by hashes; NULL over HTTP"),
        Column("upstream", "VARCHAR", "null", "URL of the server; NULL on stdio"),
        Column("format", "INTEGER", "null", "version of the file format"),
        Column("tool_version", "VARCHAR", "null", "program that wrote it: mcpproxy and its version"),
        Column("opened", "TIMESTAMP_NS", "null", "when the recording began, UTC: t_ns of its records counts from here", ComputedValue("clock(0)")),
        Column("opened_unix_ns", "BIGINT", "null", "the same in ns since 1970, exactly: t_ns of a record plus this number can be compared across captures; NULL if the wall clock is not known", ComputedValue("wall")),
        Column("duration_ns", "BIGINT", "null", "from when the recording began to its last record; while it is being recorded, up to when it was read"),
        Column("observed_start", "BOOLEAN", "not null", "whether the recording began before the first byte, so nothing is missing at its start"),
        Column("host_pid", "BIGINT", "null", "process id of the program that started the recorder: the client"),
        Column("client_program", "VARCHAR", "null", "name of that program"),
        Column("machine", "VARCHAR", "null", "name of the recording machine: chosen with --machine or MCPPROXY_MACHINE, or else its host name (in shipped captures, a hash of it); NULL in imported captures, and in captures by versions that did not record it"),
        Column("spawned_ns", "BIGINT", "null", "when the server was started, in ns since the capture opened; NULL over HTTP"),
        Column("ended_ns", "BIGINT", "null", "when the server ended; NULL if its end is not in the capture"),
        Column("ending", "VARCHAR", "null", "how the recording ended: server, client, signal, failed, record_error or import; NULL if it was not closed"),
        Column("exit_status", "INTEGER", "null", "exit status of the server; NULL if a signal killed it or its end is not in the capture"),
        Column("exit_signal", "VARCHAR", "null", "name of the signal that killed it"),
        Column("is_live", "BOOLEAN", "not null", "whether it is still being recorded"),
        Column("frames", "BIGINT", "not null", "frames in it"),
        Column("bytes", "BIGINT", "not null", "bytes of these frames, without delimiters"),
        Column("sessions", "BIGINT", "not null", "sessions in it"),
        Column("lost", "BIGINT", "not null", "records known to be lost: the recorder could not write them, or they are damaged"),
        Column("unjudged", "BIGINT", "not null", "frames that could not be parsed because they are too large, too deeply nested or incomplete"),
        Column("damage", "BIGINT", "not null", "bytes of its files that are not records; an unfinished record at the end of a file, such as a kill leaves, does not count"),
        Column("forgotten", "BIGINT", "not null", "requests, HTTP exchanges, sessions, logins, calls of several rounds, tasks and subscriptions that were forgotten because more were open at once than the limits allow; usually 0"),
        Column("begins_at", "BIGINT", "not null", "number of its first record if the recorder's ring has deleted earlier ones; otherwise 0"),
        Column("unrecorded", "BIGINT", "not null", "HTTP bodies that may contain messages but are missing: they could not be decoded, or the import did not contain them"),
    ),
)
_SESSIONS: Final = Table(
    "sessions",
    "one row per session: one conversation between a client and a server",
    "select client_name, server_name, server_version, revision, count(*) as sessions from sessions group by all",
    (
        _CAPTURE,
        Column("session", "INTEGER", "not null", "number of the session in the capture, from 1"),
        Column("delimited", "VARCHAR", "not null", "how it is distinguished from other sessions: session (a handshake or a session id), connection (a run of the server), peer (inferred from address and credentials), guess (messages of several clients without session ids may be mixed)"),
        Column("transport", "VARCHAR", "null", "stdio or http"),
        Column("era", "VARCHAR", "null", f"handshake (revisions up to {LAST_HANDSHAKE_REVISION}), modern (from {FIRST_MODERN_REVISION}), or handshake and modern if a client used both; NULL if unknown"),
        Column("revision", "VARCHAR", "null", "negotiated revision of MCP, otherwise the requested one"),
        Column("asked", "VARCHAR", "null", "revision that the client requested"),
        Column("server_name", "VARCHAR", "null", "name that the server gives itself. Untrusted text; views show captures.server instead"),
        Column("server_version", "VARCHAR", "null", "version that it names"),
        Column("client_name", "VARCHAR", "null", "name that the client gives itself. Untrusted text"),
        Column("client_version", "VARCHAR", "null", "version that it names"),
        Column("state", "VARCHAR", "not null", "how far the handshake got: new, init-sent, init-answered or ready; always new in the modern era, which has no handshake"),
        Column("observed_start", "BOOLEAN", "not null", "whether all its messages are in the capture"),
        Column("opened_ns", "BIGINT", "not null", "when it began, in ns since the capture opened"),
        Column("ready_ns", "BIGINT", "null", "when the client sent notifications/initialized; NULL if it did not"),
        Column("last_ns", "BIGINT", "null", "when its last message was read"),
        Column("opened", "TIMESTAMP_NS", "null", "when it began, UTC", ComputedValue("clock(opened_ns)")),
        Column("frames", "BIGINT", "not null", "frames in it"),
        Column("requests", "BIGINT", "not null", "requests in it, from both sides"),
        Column("client_capabilities", "VARCHAR", "null", "what the client declared, as JSON: in its last request that declares capabilities, otherwise in initialize; of two members with the same name, the last"),
        Column("server_capabilities", "VARCHAR", "null", "what the server declared, in the same way"),
    ),
)
_FRAMES: Final = Table(
    "frames",
    "one row per frame: a line, an HTTP body or the data of an event",
    "select seq, message ->> '$.params.arguments' as arguments from frames where method = 'tools/call'",
    (
        _CAPTURE,
        Column("seq", "BIGINT", "not null", "number of its record in the capture; other tables call this number frame, request or response"),
        Column("t_ns", "BIGINT", "not null", "when it was read, in ns since the capture opened"),
        _TIME,
        Column("time_is_exact", "BOOLEAN", "not null", "whether t_ns is the exact time: true for everything that was recorded; false in imports, for frames for which the log has no time of their own, or only one in whole seconds"),
        Column("dir", "VARCHAR", "not null", "c2s (client to server) or s2c"),
        Column("session", "INTEGER", "null", "number of the session; NULL if it belongs to none"),
        Column("conn", "BIGINT", "not null", "number of the connection; 0 on stdio"),
        Column("exchange", "BIGINT", "null", "number of the HTTP exchange that carried it; NULL on stdio"),
        Column("unit", "VARCHAR", "not null", "line, http_body or sse_event"),
        Column("event_id", "VARCHAR", "null", "id of the event in a stream; NULL if it has none"),
        Column("kind", "VARCHAR", "not null", "request, response, error, notification, batch, invalid (not a message) or unjudged (not parsed)"),
        Column("id", "VARCHAR", "null", 'id of the message as JSON writes it: 7 and "7" differ; NULL if it has none, if it is longer than 256 bytes, too large for a float, or an array or object; NULL for batches and parts of messages'),
        Column("method", "VARCHAR", "null", "its method; NULL for responses"),
        Column("name", "VARCHAR", "null", "tool, prompt or resource that it is about (for a response, that of its request), cut at 256 characters; NULL if it names none or the name is empty"),
        Column("code", "BIGINT", "null", "code of an error"),
        Column("problem", "VARCHAR", "null", "first rule that this frame violates by itself; NULL if none"),
        Column("size", "BIGINT", "not null", "its bytes, without the delimiter", ComputedValue("octet_length(raw)")),
        Column("stall_ns", "BIGINT", "null", "how long it waited because its receiver did not read it; NULL if it did not wait", ComputedValue("null")),  # of stalls, which are recorded later
        Column("request", "BIGINT", "null", "frame number of the request that it is or answers; NULL if it matches none"),
        Column("params_hash", "BIGINT", "null", "for a notification: a hash of its params, as in exchanges; otherwise NULL"),
        Column("is_json", "BOOLEAN", "not null", "whether it is JSON, and not nested too deeply for DuckDB", ComputedValue(f"message_problem is null or message_problem = '{DUPLICATE_MEMBER}'")),
        Column("message_problem", "VARCHAR", "null", "why message is NULL: unjudged (not parsed), not JSON (taken strictly: NaN, a byte order mark and half of a surrogate pair are not JSON), too deep (for DuckDB), or duplicate member (an object, at any depth, has two members with the same name; the other columns use the last, as most parsers do); NULL if there is a message"),
        Column("raw", "BLOB", "not null", "its exact bytes"),
        Column("message", "JSON", "null", "its JSON, exactly as it was sent; NULL if parsers could disagree about it, because it must never contradict the other columns; message_problem gives the reason", GeneratedValue("case when message_problem is null then try_cast(decode(raw) as json) end")),
    ),
)
_EXCHANGES: Final = Table(
    "exchanges",
    "one row per request, with its outcome",
    "select request, method, name, outcome, latency_ms\nfrom exchanges where latency_ms > 100 and asked_by = 'client' order by latency_ms desc",
    (
        Column("capture", "VARCHAR", "not null", "id of the capture: message ids and frame numbers are unique only within a capture"),
        Column("session", "INTEGER", "not null", "number of the session"),
        Column("request", "BIGINT", "not null", "frame number of the request"),
        Column("item", "INTEGER", "null", "its place in that frame, from 0, if the frame is a batch or contains several messages"),
        Column("response", "BIGINT", "null", "frame number of the response; NULL if there is none"),
        Column("id", "VARCHAR", "null", "id of the request as JSON writes it, the same as in frames; NULL if it is longer than 256 bytes, too large for a float, or an array or object. In a batch, numbers and escapes are normalised"),
        Column("method", "VARCHAR", "not null", "method of the request"),
        Column("name", "VARCHAR", "null", "tool, prompt or resource that it names, cut at 256 characters; NULL if it names none or the name is empty"),
        Column("asked_by", "VARCHAR", "not null", "client or server"),
        Column("revision", "VARCHAR", "null", "revision of MCP in force for it"),
        Column("era", "VARCHAR", "null", "handshake or modern"),
        Column("extension", "VARCHAR", "null", "identifier of the known extension that defines the method, such as io.modelcontextprotocol/tasks; NULL for methods of the core and of extensions that mcpproxy does not know"),
        Column("outcome", "VARCHAR", "not null", "result, tool_error (a result with isError), error, input_required (an interim result), task (a task was started), cancelled (also if its client closed the HTTP exchange), failed (its HTTP exchange), unanswered, not_recorded (unanswered, but the capture lacks a body or records in which the response may have come)"),
        Column("code", "BIGINT", "null", "code of the error"),
        Column("error", "VARCHAR", "null", "message of the error, or the first text that a failing tool returned, cut at 300 characters. Untrusted text"),
        Column("started_ns", "BIGINT", "not null", "when it was handed on, in ns since the capture opened: the time of its record plus its stall"),
        Column("ended_ns", "BIGINT", "null", "when the response came; NULL if unanswered"),
        Column("time", "TIMESTAMP_NS", "null", "when it was sent, UTC", ComputedValue("clock(started_ns)")),
        Column("time_is_exact", "BOOLEAN", "not null", "whether started_ns and ended_ns are exact: false only in imports"),
        Column("latency_ms", "DOUBLE", "null", "ended_ns - started_ns, also for late responses (after cancelled_ns); NULL if unanswered, or if time_is_exact is false", ComputedValue("case when ended_ns is not null and time_is_exact then greatest(0, ended_ns - started_ns) / 1e6 end")),
        Column("server_ms", "DOUBLE", "null", "latency_ms - waiting_ms: the time that the responding side itself took", ComputedValue("case when ended_ns is not null and time_is_exact then greatest(0, ended_ns - started_ns - waiting_ns) / 1e6 end")),
        Column("stall_ms", "DOUBLE", "null", "how long it waited before it was handed on because its receiver did not read it", ComputedValue("stall_ns / 1e6", ("stall_ns", "BIGINT"))),
        Column("waiting_ms", "DOUBLE", "null", "the part of the latency in which the responding side waited for responses to its own requests, such as sampling, elicitation and roots", ComputedValue("case when ended_ns is not null then waiting_ns / 1e6 end", ("waiting_ns", "BIGINT"))),
        Column("request_bytes", "BIGINT", "not null", "size of the frame of the request"),
        Column("response_bytes", "BIGINT", "null", "size of the frame of the response; NULL if there is none"),
        Column("progress", "INTEGER", "not null", "number of progress notifications for it"),
        Column("first_progress_ms", "DOUBLE", "null", "time from when it was handed on to its first progress notification; NULL if there was none", ComputedValue("case when first_progress_ns is not null then greatest(0, first_progress_ns - started_ns) / 1e6 end", ("first_progress_ns", "BIGINT"))),
        Column("failed_ns", "BIGINT", "null", "when the HTTP exchange with which it failed ended; NULL if outcome is not failed"),
        Column("cancelled_ns", "BIGINT", "null", "when it was first cancelled, or its client closed its HTTP exchange; NULL if neither happened. A response may have come nevertheless; outcome says whether the request had failed before"),
        Column("cancel_reason", "VARCHAR", "null", "the reason given in the cancellation, cut at 300 characters; NULL if none was given. Untrusted text"),
        Column("is_abandoned", "BOOLEAN", "not null", f"whether its sender gave up on it: cancelled with a reason that mentions a time-out, or after 5 s or more; or, up to {LAST_HANDSHAKE_REVISION}, its client closed the HTTP exchange"),
        Column("probable_answer", "BIGINT", "null", "for an unanswered request: frame number of the first response that matches no request and was probably meant for this one, the only or oldest request open at that time; NULL if there is none. A guess"),
        Column("probable_answer_id", "VARCHAR", "null", "id of that response as JSON writes it, cut at 60 characters; NULL if it has none, or null. Untrusted text"),
        Column("in_flight", "INTEGER", "null", "how many requests of its session were open (unanswered and not cancelled) when it was sent, including itself"),
        Column("chain", "INTEGER", "null", f"number of the call that it is a round of, if interim results split the call into several rounds (from {FIRST_MODERN_REVISION})"),
        Column("round", "INTEGER", "null", "number of the round, from 1"),
        Column("task", "VARCHAR", "null", "id of the task that it started or is about"),
        Column("is_app_call", "BOOLEAN", "not null", "whether it calls a tool that is only for apps, from a client that supports Apps (io.modelcontextprotocol/ui) and so hides the tool from its model: an app started it, or a user in a tool for debugging. Calls of apps to other tools look like those of the model"),
        Column("exchange", "BIGINT", "null", "number of the HTTP exchange that carried the request, the last one if it was redirected; NULL on stdio"),
        Column("redirects", "INTEGER", "not null", "how many times it was redirected and repeated; the repetitions do not count as requests"),
        Column("params_hash", "BIGINT", "null", "a hash of its params that depends neither on the order of members nor on what a bridge may replace: progress tokens, trace context, ids that other messages refer to; NULL if they are nested too deeply"),
        Column("response_hash", "BIGINT", "null", "a hash of the result or error in the same way; NULL if there is none"),
        Column("trace", "VARCHAR", "null", "its trace context: the first valid traceparent, of its _meta or else of the HTTP head, where it must not be repeated; if there is none, what is in its place in _meta (at most 256 characters) or else in the head, which is a hash if it is not valid or was recorded by an earlier version; NULL if nothing is. Untrusted text"),
        Column("known_client", "VARCHAR", "null", "the client that wrote the ids in turn_id, client_call_id and client_session, by the members of _meta or the environment variable that only it has: Claude Code, Codex, VS Code, Goose, OpenCode, Qwen Code, ChatGPT, Antigravity or Grok; NULL if there are none"),
        Column("turn_id", "VARCHAR", "null", "id of the turn, that is, of the prompt of the user that caused it, as the client names it; the same in the captures of all servers of the client. NULL if the client names none. Untrusted text"),
        Column("client_call_id", "VARCHAR", "null", "id of the model's call of the tool, as the client names it in its transcripts; NULL if it names none. Untrusted text"),
        Column("client_session", "VARCHAR", "null", "id of the client's conversation or thread; a keyed hash, hmac:…, if only the environment of the server has it, which is the same in all captures of a user. NULL if the client names none. Untrusted text"),
        Column("trace_id", "VARCHAR", "null", "id of its trace, 32 hexadecimal digits: from a valid traceparent in _meta, or else in the HTTP head, unless it is repeated there; NULL if there is none"),
    ),
)
_HTTP_EXCHANGES: Final = Table(
    "http_exchanges",
    "one row per HTTP request",
    "select method, status, count(*) as requests from http_exchanges group by all",
    (
        _CAPTURE,
        Column("exchange", "BIGINT", "not null", "number of the exchange in the capture"),
        Column("conn", "BIGINT", "not null", "number of the connection"),
        Column("peer", "VARCHAR", "null", "address of the client; with `serve --public`, as the proxy in front of mcpproxy reports it"),
        Column("method", "VARCHAR", "null", "HTTP method, such as POST"),
        Column("target", "VARCHAR", "null", "path and query of the request, with secrets replaced by hashes"),
        Column("status", "INTEGER", "null", "status of the response; NULL if there is none, or none yet"),
        Column("started_ns", "BIGINT", "null", "when the request head was read, in ns since the capture opened"),
        Column("head_ns", "BIGINT", "null", "when the response head was read"),
        Column("first_byte_ns", "BIGINT", "null", "when the first byte of the response body was read"),
        Column("ended_ns", "BIGINT", "null", "when it ended; NULL while it is open"),
        Column("time", "TIMESTAMP_NS", "null", "when it began, UTC", ComputedValue("clock(started_ns)")),
        Column("ended_by", "VARCHAR", "null", "complete, client, server, proxy or error; NULL while it is open"),
        Column("request_bytes", "BIGINT", "null", "bytes of the request body; NULL before the response begins"),
        Column("response_bytes", "BIGINT", "null", "bytes of the response body; NULL while it is open"),
        Column("content_type", "VARCHAR", "null", "content type of the response"),
        Column("session_id", "VARCHAR", "null", "a hash of the MCP session id in its header"),
        Column("revision", "VARCHAR", "null", "revision of MCP in the request header"),
        Column("session", "INTEGER", "null", "number of the session that its messages belong to"),
        Column("is_stream", "BOOLEAN", "not null", "whether the response is an event stream"),
        Column("events", "BIGINT", "null", "events in it; NULL while it is open"),
        Column("resumes", "BIGINT", "null", "number of the exchange whose stream it resumes"),
        Column("by_proxy", "BOOLEAN", "not null", "whether mcpproxy itself responded because the server could not be reached"),
        Column("failed_by", "VARCHAR", "null", "who failed, as far as HTTP shows: server, gateway, network or client (it left, or mcpproxy refused its request); NULL if the exchange did not fail. A stream that ends as it should, but without the response, is not a failure of HTTP"),
        Column("said", "VARCHAR", "null", "text of a response that is not an MCP message, such as the error page of a gateway, in one line; otherwise why the exchange broke off; NULL if there is neither. Untrusted text"),
        Column("leg", "VARCHAR", "null", "which leg of a login it is: challenge, resource-metadata, server-metadata, registration, device, authorize, callback, token, revocation or introspection; NULL if it is none"),
        Column("login", "INTEGER", "null", "number of the login to which the leg belongs"),
        Column("oauth", "JSON", "null", "what else is recorded of the leg, or of an OAuth error: error, scope, client_id and so on, without credentials; NULL if there is nothing. Untrusted texts"),
        Column("tunnelled_c2s_bytes", "BIGINT", "null", "bytes that the client sent after the connection had changed to another protocol, such as WebSocket (status 101); they are not recorded. NULL if it did not change"),
        Column("tunnelled_s2c_bytes", "BIGINT", "null", "bytes that the server sent, in the same way"),
    ),
)
_LOGINS: Final = Table(
    "logins",
    "one row per login: the HTTP exchanges with which a client tried to get a token",
    "select login, outcome, failed_leg, failed_status, error, kinds, peer, user_agent\nfrom logins where outcome in ('failed', 'rejected', 'unused', 'unfinished') order by started_ns",
    (
        _CAPTURE,
        Column("login", "INTEGER", "not null", "number of the login in the capture, from 1"),
        Column("outcome", "VARCHAR", "not null", "granted (a token was issued, here or elsewhere, and not refused), rejected (the endpoint refused the new token), unused (a token was issued, but the client went on without it), failed (a leg failed, see failed_leg), unfinished (no leg failed, but the client did not go on), unneeded (the client requested metadata, but the endpoint did not ask for a token) or revoked (a token was only revoked or introspected)"),
        Column("is_over", "BOOLEAN", "not null", "whether no leg can follow; false for a login that is under way at the end of a growing capture"),
        Column("is_renewal", "BOOLEAN", "not null", "whether a token was only renewed with a refresh token"),
        Column("is_unbroken", "BOOLEAN", "not null", "whether no records, which may have been those of a leg, were lost while it lasted"),
        Column("peer", "VARCHAR", "null", "address of its first client, without the port"),
        Column("user_agent", "VARCHAR", "null", "program of its first client, from the field User-Agent. Untrusted text"),
        Column("started_ns", "BIGINT", "null", "when its first leg began, in ns since the capture opened"),
        Column("ended_ns", "BIGINT", "null", "when its last leg ended"),
        Column("time", "TIMESTAMP_NS", "null", "when it began, UTC", ComputedValue("clock(started_ns)")),
        Column("leg_count", "BIGINT", "not null", "number of its legs"),
        Column("guessed_legs", "BIGINT", "not null", "how many of them were assigned to it by a guess: no client id or address connects them with the others"),
        Column("legs", "BIGINT[]", "not null", "numbers of their HTTP exchanges, in the order in which they ended: the first 31 and the last"),
        Column("kinds", "VARCHAR", "not null", "kinds of these legs, as in http_exchanges.leg, separated by commas; repetitions in a row are left out"),
        Column("failed_leg", "VARCHAR", "null", "kind of the leg that failed; challenge if outcome is rejected; NULL for other outcomes"),
        Column("failed_exchange", "BIGINT", "null", "number of its HTTP exchange"),
        Column("failed_frame", "BIGINT", "null", "number of the record of its end, which show --frame prints"),
        Column("failed_status", "INTEGER", "null", "status of the response to it; NULL if there is none"),
        Column("error", "VARCHAR", "null", "OAuth error in that response, such as invalid_grant. Untrusted text"),
        Column("error_description", "VARCHAR", "null", "description of that error. Untrusted text"),
        Column("grant_type", "VARCHAR", "null", "grant type of the last request for a token. Untrusted text, as are all that follow"),
        Column("scope", "VARCHAR", "null", "scope of the token, or else the last scope that a leg names"),
        Column("resource", "VARCHAR", "null", "resource that the client asked for (RFC 8707), or else the one in the metadata"),
        Column("client_id", "VARCHAR", "null", "the last client id that a leg names: a keyed hash or a URL"),
        Column("redirect_uri", "VARCHAR", "null", "scheme and host of the last redirect URI that a leg names"),
        Column("issuer", "VARCHAR", "null", "the last issuer that a leg names"),
        Column("server_elsewhere", "VARCHAR", "null", "the authorization server, if it is not at the recorded address; its legs are not in the capture"),
        Column("accepted_exchange", "BIGINT", "null", "number of the first HTTP exchange after the login whose message the endpoint accepted"),
    ),
)
_FINDINGS: Final = Table(
    "findings",
    "one row per finding of check, including notes",
    "select level, rule, message, capture, frame from findings where level <> 'note'",
    (
        _CAPTURE,
        Column("rule", "VARCHAR", "not null", "id of the rule; `mcpproxy rule ID` explains it"),
        Column("group", "VARCHAR", "not null", 'the part of the id before the slash. An SQL keyword, so quote it: "group"'),
        Column("level", "VARCHAR", "not null", "error (forbidden), warning (discouraged) or note (allowed, but worth knowing)"),
        Column("blames", "VARCHAR", "not null", "side at fault: client, server, transport or unknown"),
        Column("session", "INTEGER", "not null", "number of the session; 0 if it belongs to none"),
        Column("frame", "BIGINT", "not null", "number of the record with the problem"),
        Column("item", "INTEGER", "null", "the position of the message in its frame, if that contains several"),
        Column("related", "BIGINT[]", "not null", "numbers of other records that prove it"),
        Column("method", "VARCHAR", "null", "method of the message; for a response, that of its request"),
        Column("message", "VARCHAR", "not null", "the problem, in a sentence"),
        Column("pointer", "VARCHAR", "not null", "JSON Pointer to the place in the message; empty for the whole message"),
        Column("source", "VARCHAR", "not null", "source of the requirement: a page of the specification, or an RFC"),
        Column("t_ns", "BIGINT", "not null", "when, in ns since the capture opened"),
        _TIME,
    ),
)
_TOOLS: Final = Table(
    "tools",
    "one row per tool definition that a session received; a changed definition adds a row",
    "select name, bytes, definition ->> '$.description' as description from tools order by bytes desc",
    (
        _CAPTURE,
        Column("session", "INTEGER", "not null", "number of the session that received it"),
        Column("name", "VARCHAR", "not null", "name of the tool"),
        Column("title", "VARCHAR", "null", "its title for people"),
        Column("definition", "JSON", "not null", "the whole definition; of two members with the same name, the last, as in the other columns (message_problem of the frame is then duplicate member)"),
        Column("bytes", "BIGINT", "not null", "size of the definition as compact JSON"),
        Column("tokens_estimate", "BIGINT", "not null", "bytes / 4, an estimate of the tokens that a model reads for it", ComputedValue("round(bytes / 4)::bigint")),
        Column("hash", "VARCHAR", "not null", "a hash of the definition that does not depend on the order of its members"),
        Column("listed", "BIGINT", "not null", "frame number of the list that contains it"),
        Column("t_ns", "BIGINT", "not null", "when the list came, in ns since the capture opened"),
        _TIME,
    ),
)
_STDERR: Final = Table(
    "stderr",
    "one row per line that the server wrote to stderr",
    "select capture, count(*) as lines from stderr group by capture",
    (
        _CAPTURE,
        Column("seq", "BIGINT", "not null", "number of its record in the capture"),
        Column("t_ns", "BIGINT", "not null", "when it was read, in ns since the capture opened"),
        _TIME,
        Column("line", "VARCHAR", "not null", "its text. Untrusted text"),
        Column("raw", "BLOB", "not null", "its exact bytes"),
    ),
)

# fmt: on

TABLES: Final = {
    table.name: table
    for table in (_CAPTURES, _SESSIONS, _FRAMES, _EXCHANGES, _HTTP_EXCHANGES, _LOGINS, _FINDINGS, _TOOLS, _STDERR)
}
"""The tables by name, in the order in which they are created."""

RENAMED_COLUMNS: Final = {
    ("captures", "name"): "server",
    ("captures", "host"): "client_program",
    ("sessions", "server"): "server_name",
    ("sessions", "client"): "client_name",
    ("frames", "waited_ns"): "stall_ns",
    ("calls", "answer_ms"): "latency_ms",
    ("unanswered", "waited_ms"): "open_ms",
}
"""The current names of columns that had other names in version 0.1. Queries may still use the old names, and data sets
that were shipped by that version have them."""
