-- The tables; only analysis.store.load fills them. Each column has its comment here, and docs/sql.md is generated from
-- the comments. `capture` is the same in all tables: the id in the capture's header. Records, sessions and exchanges have
-- their numbers of the capture, as in every command. Many times come in two forms: `t_ns`, nanoseconds since the capture
-- opened, for arithmetic; `time`, wall clock in UTC, for people.

--     select name, host, opened, duration_ns / 1e9 as seconds, frames, lost from captures order by opened
create table captures (
    capture varchar not null, name varchar, path varchar not null, transport varchar, command varchar, upstream varchar,
    format integer, tool_version varchar, opened timestamp_ns, duration_ns bigint, observed_start boolean not null,
    host_pid bigint, host varchar, machine varchar, spawned_ns bigint, ended_ns bigint, ending varchar, exit_status integer, exit_signal varchar,
    is_live boolean not null, frames bigint not null, bytes bigint not null, sessions bigint not null, lost bigint not null,
    unjudged bigint not null, damage bigint not null, forgotten bigint not null, begins_at bigint not null,
    unrecorded bigint not null
);
comment on table captures is 'one row per capture';
comment on column captures.capture is 'id of the capture: the one in its header, 32 hex digits; a hash of its path if the header is lost, or if a larger file in another state has that id';
comment on column captures.name is 'name of the captured server: given by the user, or guessed from the command or URL';
comment on column captures.path is 'file of its first segment';
comment on column captures.transport is 'stdio, http or import (converted from a trace or log of another tool); NULL if the header is lost';
comment on column captures.command is 'the command that was run, with words that could be secrets replaced by hashes; NULL over HTTP';
comment on column captures.upstream is 'URL of the server; NULL on stdio';
comment on column captures.format is 'version of the file format';
comment on column captures.tool_version is 'program that wrote it: mcpproxy and its version';
comment on column captures.opened is 'when the recording began, UTC: t_ns of its records counts from here';
comment on column captures.duration_ns is 'from then to its last record; while it is being recorded, up to when it was read';
comment on column captures.observed_start is 'whether the recording began before the first byte, so that nothing is missing at its start';
comment on column captures.host_pid is 'process id of the program that started the recorder: the client';
comment on column captures.host is 'name of that program';
comment on column captures.machine is 'name of the recording machine: chosen with --machine or MCPPROXY_MACHINE, or else its host name, in shipped captures a hash of that; NULL in captures of versions without it, and in imported ones';
comment on column captures.spawned_ns is 'when the server was started, in ns since the capture opened; NULL over HTTP';
comment on column captures.ended_ns is 'when the server ended; NULL if its end is not in the capture';
comment on column captures.ending is 'how the recording ended: server, client, signal, failed, record_error or import; NULL if it was not closed';
comment on column captures.exit_status is 'exit status of the server; NULL if a signal killed it or its end is not in the capture';
comment on column captures.exit_signal is 'name of the signal that killed it';
comment on column captures.is_live is 'whether it is still being recorded';
comment on column captures.frames is 'frames in it';
comment on column captures.bytes is 'bytes of these frames, without delimiters';
comment on column captures.sessions is 'sessions in it';
comment on column captures.lost is 'records known to be lost: the recorder could not write them, or they are damaged';
comment on column captures.unjudged is 'frames that could not be parsed because they are too large, too deeply nested or incomplete';
comment on column captures.damage is 'bytes of its files that are not records; an unfinished record at the end of a file, as a kill leaves it, does not count';
comment on column captures.forgotten is 'requests, HTTP exchanges, sessions, calls of several rounds, tasks and subscriptions that were forgotten because more were open at once than the limits allow; usually 0';
comment on column captures.begins_at is 'number of its first record, if the recorder''s ring has deleted those before it; else 0';
comment on column captures.unrecorded is 'HTTP bodies that may hold messages but are missing: they could not be decoded, or the import did not contain them';

--     select client, server, server_version, revision, count(*) as sessions from sessions group by all
create table sessions (
    capture varchar not null, session integer not null, delimited varchar not null, transport varchar, era varchar,
    revision varchar, asked varchar, server varchar, server_version varchar, client varchar, client_version varchar,
    state varchar not null, observed_start boolean not null, opened_ns bigint not null, ready_ns bigint, last_ns bigint,
    opened timestamp_ns, frames bigint not null, requests bigint not null, client_capabilities varchar, server_capabilities varchar
);
comment on table sessions is 'one row per session: one conversation between a client and a server';
comment on column sessions.capture is 'id of the capture';
comment on column sessions.session is 'number of the session in the capture, from 1';
comment on column sessions.delimited is 'how it is distinguished from other sessions: session (a handshake or a session id), connection (a run of the server), peer (inferred from address and credentials), guess (messages of several clients without session ids may be mixed)';
comment on column sessions.transport is 'stdio or http';
comment on column sessions.era is 'handshake (revisions up to 2025-11-25), modern (from 2026-07-28), or handshake and modern if a client used both; NULL if unknown';
comment on column sessions.revision is 'negotiated revision of MCP, otherwise the requested one';
comment on column sessions.asked is 'revision that the client requested';
comment on column sessions.server is 'name that the server gives itself. Untrusted text; views show captures.name instead';
comment on column sessions.server_version is 'version that it names';
comment on column sessions.client is 'name that the client gives itself. Untrusted text';
comment on column sessions.client_version is 'version that it names';
comment on column sessions.state is 'how far the handshake got: new, init-sent, init-answered or ready; always new in the modern era, which has no handshake';
comment on column sessions.observed_start is 'whether all its messages are in the capture';
comment on column sessions.opened_ns is 'when it began, in ns since the capture opened';
comment on column sessions.ready_ns is 'when the client sent notifications/initialized; NULL if it did not';
comment on column sessions.last_ns is 'when its last message was read';
comment on column sessions.opened is 'when it began, UTC';
comment on column sessions.frames is 'frames in it';
comment on column sessions.requests is 'requests in it, from both sides';
comment on column sessions.client_capabilities is 'what the client declared, as JSON; of two members with one name, the last';
comment on column sessions.server_capabilities is 'what the server declared, in the same way';

--     select seq, message ->> '$.params.arguments' as arguments from frames where method = 'tools/call'
create table frames (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, dir varchar not null,
    session integer, conn bigint not null, exchange bigint, unit varchar not null, event_id varchar, kind varchar not null,
    id varchar, method varchar, name varchar, code bigint, problem varchar, size bigint not null, waited_ns bigint,
    request bigint, is_json boolean not null, message_problem varchar, raw blob not null,
    message json generated always as (case when message_problem is null then try_cast(decode(raw) as json) end) virtual
);
comment on table frames is 'one row per frame: a line, an HTTP body or the data of an event';
comment on column frames.capture is 'id of the capture';
comment on column frames.seq is 'number of its record in the capture; other tables call this number frame, request or response';
comment on column frames.t_ns is 'when it was read, in ns since the capture opened';
comment on column frames.time is 'the same time, UTC';
comment on column frames.dir is 'c2s (client to server) or s2c';
comment on column frames.session is 'number of the session; NULL if it belongs to none';
comment on column frames.conn is 'number of the connection; 0 on stdio';
comment on column frames.exchange is 'number of the HTTP exchange that carried it; NULL on stdio';
comment on column frames.unit is 'line, http_body or sse_event';
comment on column frames.event_id is 'id of the event in a stream; NULL if it has none';
comment on column frames.kind is 'request, response, error, notification, batch, invalid (not a message) or unjudged (not parsed)';
comment on column frames.id is 'id of the message as JSON writes it: 7 and "7" differ; NULL if it has none, if it is longer than 256 bytes, too large for a float, or an array or object; NULL for batches and parts of messages';
comment on column frames.method is 'its method; NULL for responses';
comment on column frames.name is 'tool, prompt or resource that it is about (for a response, that of its request), cut at 256 characters; NULL if it names none, or an empty one';
comment on column frames.code is 'code of an error';
comment on column frames.problem is 'first rule that this frame violates by itself; NULL if none';
comment on column frames.size is 'its bytes, without the delimiter';
comment on column frames.waited_ns is 'how long it waited because its receiver did not read it; NULL if it did not wait';
comment on column frames.request is 'frame number of the request that it is or answers; NULL if it matches none';
comment on column frames.is_json is 'whether it is JSON, and not nested too deeply for DuckDB';
comment on column frames.message_problem is 'why message is NULL: unjudged (not parsed), not JSON (taken strictly: NaN, a byte order mark and half of a surrogate pair are not JSON), too deep (for DuckDB), or duplicate member (an object, at any depth, has two members with one name; the other columns use the last, as most parsers do); NULL if there is a message';
comment on column frames.message is 'its JSON, as it came; NULL if parsers could disagree about it, so that it never contradicts the other columns: message_problem has the reason';
comment on column frames.raw is 'its exact bytes';

--     select request, method, name, outcome, latency_ms
--     from exchanges where latency_ms > 100 and asked_by = 'client' order by latency_ms desc
create table exchanges (
    capture varchar not null, session integer not null, request bigint not null, item integer, response bigint, id varchar,
    method varchar not null, name varchar, asked_by varchar not null, revision varchar, era varchar, outcome varchar not null,
    code bigint, error varchar, started_ns bigint not null, ended_ns bigint, time timestamp_ns, latency_ms double,
    server_ms double, stall_ms double, waiting_ms double, request_bytes bigint not null, response_bytes bigint,
    progress integer not null, cancelled_ns bigint, cancel_reason varchar, is_abandoned boolean not null,
    probable_answer bigint, probable_answer_id varchar, in_flight integer, chain integer, round integer, task varchar, exchange bigint,
    redirects integer not null
);
comment on table exchanges is 'one row per request, with its outcome';
comment on column exchanges.capture is 'id of the capture: message ids and frame numbers are unique only within a capture';
comment on column exchanges.session is 'number of the session';
comment on column exchanges.request is 'frame number of the request';
comment on column exchanges.item is 'its place in that frame, from 0, if the frame is a batch or holds several messages';
comment on column exchanges.response is 'frame number of the response; NULL if there is none';
comment on column exchanges.id is 'id of the request as JSON writes it, the same as in frames; NULL if it is longer than 256 bytes, too large for a float, or an array or object. In a batch, numbers and escapes are normalised';
comment on column exchanges.method is 'method of the request';
comment on column exchanges.name is 'tool, prompt or resource that it names, cut at 256 characters; NULL if it names none, or an empty one';
comment on column exchanges.asked_by is 'client or server';
comment on column exchanges.revision is 'revision of MCP in force for it';
comment on column exchanges.era is 'handshake or modern';
comment on column exchanges.outcome is 'result, tool_error (a result with isError), error, input_required (an interim result), task (a task was started), cancelled (also if its client closed the HTTP exchange), failed (its HTTP exchange), unanswered, not_recorded (unanswered, but the capture lacks a body or records in which the response may have come)';
comment on column exchanges.code is 'code of the error';
comment on column exchanges.error is 'message of the error, or the first text that a failing tool returned, cut at 300 characters. Untrusted text';
comment on column exchanges.started_ns is 'when it was handed on, in ns since the capture opened: the time of its record plus its stall';
comment on column exchanges.ended_ns is 'when the response came; NULL if unanswered';
comment on column exchanges.time is 'when it was sent, UTC';
comment on column exchanges.latency_ms is 'ended_ns - started_ns; NULL if unanswered';
comment on column exchanges.server_ms is 'latency_ms - waiting_ms: the time that the responding side itself took';
comment on column exchanges.stall_ms is 'how long it waited before it was handed on because its receiver did not read it';
comment on column exchanges.waiting_ms is 'the part of the latency in which the responding side waited for responses to its own requests, such as sampling, elicitation and roots';
comment on column exchanges.request_bytes is 'size of the frame of the request';
comment on column exchanges.response_bytes is 'size of the frame of the response; NULL if there is none';
comment on column exchanges.progress is 'number of progress notifications for it';
comment on column exchanges.cancelled_ns is 'when it was first cancelled, or its client closed its HTTP exchange; NULL if neither happened. A response may have come nevertheless; outcome says whether the request had failed before';
comment on column exchanges.cancel_reason is 'the reason given in the cancellation, cut at 300 characters; NULL if none was given. Untrusted text';
comment on column exchanges.is_abandoned is 'whether its sender gave up on it: cancelled with a reason that mentions a time-out, or after 5 s or more; or, up to 2025-11-25, its client closed the HTTP exchange';
comment on column exchanges.probable_answer is 'for an unanswered request: frame number of the first response that matches no request and was probably meant for this one, the only or oldest request open at that time; NULL if there is none. A guess';
comment on column exchanges.probable_answer_id is 'id of that response as JSON writes it, cut at 60 characters; NULL if it has none, or null. Untrusted text';
comment on column exchanges.in_flight is 'how many requests of its session were open (unanswered and not cancelled) when it was sent, including itself';
comment on column exchanges.chain is 'number of the call that it is a round of, if interim results split the call into several rounds (from 2026-07-28)';
comment on column exchanges.round is 'number of the round, from 1';
comment on column exchanges.task is 'id of the task that it started or is about';
comment on column exchanges.exchange is 'number of the HTTP exchange that carried the request, the last one if it was redirected; NULL on stdio';
comment on column exchanges.redirects is 'how many times it was redirected and repeated; the repetitions do not count as requests';

--     select method, status, count(*) as requests from http_exchanges group by all
create table http_exchanges (
    capture varchar not null, exchange bigint not null, conn bigint not null, peer varchar, method varchar, target varchar,
    status integer, started_ns bigint, head_ns bigint, first_byte_ns bigint, ended_ns bigint, time timestamp_ns, ended_by varchar,
    request_bytes bigint, response_bytes bigint, content_type varchar, session_id varchar, revision varchar, session integer,
    is_stream boolean not null, events bigint not null, resumes bigint, by_proxy boolean not null, failed_by varchar, said varchar
);
comment on table http_exchanges is 'one row per HTTP request';
comment on column http_exchanges.capture is 'id of the capture';
comment on column http_exchanges.exchange is 'number of the exchange in the capture';
comment on column http_exchanges.conn is 'number of the connection';
comment on column http_exchanges.peer is 'address of the client';
comment on column http_exchanges.method is 'HTTP method, such as POST';
comment on column http_exchanges.target is 'path and query of the request, with secrets replaced by hashes';
comment on column http_exchanges.status is 'status of the response; NULL if there is none, or none yet';
comment on column http_exchanges.started_ns is 'when the request head was read, in ns since the capture opened';
comment on column http_exchanges.head_ns is 'when the response head was read';
comment on column http_exchanges.first_byte_ns is 'when the first byte of the response body was read';
comment on column http_exchanges.ended_ns is 'when it ended; NULL while it is open';
comment on column http_exchanges.time is 'when it began, UTC';
comment on column http_exchanges.ended_by is 'complete, client, server, proxy or error; NULL while it is open';
comment on column http_exchanges.request_bytes is 'bytes of the request body';
comment on column http_exchanges.response_bytes is 'bytes of the response body';
comment on column http_exchanges.content_type is 'content type of the response';
comment on column http_exchanges.session_id is 'a hash of the MCP session id in its header';
comment on column http_exchanges.revision is 'revision of MCP in the request header';
comment on column http_exchanges.session is 'number of the session that its messages belong to';
comment on column http_exchanges.is_stream is 'whether the response is an event stream';
comment on column http_exchanges.events is 'events in it';
comment on column http_exchanges.resumes is 'number of the exchange whose stream it resumes';
comment on column http_exchanges.by_proxy is 'whether mcpproxy itself responded because the server could not be reached';
comment on column http_exchanges.failed_by is 'who failed, as far as HTTP shows: server, gateway, network or client (it left, or mcpproxy refused its request); NULL if the exchange did not fail. A stream that ends as it should, but without the response, is not a failure of HTTP';
comment on column http_exchanges.said is 'text of a response that is not an MCP message, such as the error page of a gateway, in one line; otherwise why the exchange broke off; NULL if there is neither. Untrusted text';

--     select level, rule, message, capture, frame from findings where level <> 'note'
create table findings (
    capture varchar not null, rule varchar not null, "group" varchar not null, level varchar not null, blames varchar not null,
    session integer not null, frame bigint not null, item integer, related bigint[] not null, method varchar, message varchar not null,
    pointer varchar not null, source varchar not null, t_ns bigint not null, time timestamp_ns
);
comment on table findings is 'one row per finding of check, including notes';
comment on column findings.capture is 'id of the capture';
comment on column findings.rule is 'id of the rule; `mcpproxy rule ID` explains it';
comment on column findings."group" is 'the part of the id before the slash. An SQL keyword, so quote it: "group"';
comment on column findings.level is 'error (forbidden), warning (discouraged) or note (allowed, but worth knowing)';
comment on column findings.blames is 'side at fault: client, server, transport or unknown';
comment on column findings.session is 'number of the session; 0 if it belongs to none';
comment on column findings.frame is 'number of the record with the problem';
comment on column findings.item is 'the place of the message in its frame, if that holds several';
comment on column findings.related is 'numbers of other records that prove it';
comment on column findings.method is 'method of the message; for a response, that of its request';
comment on column findings.message is 'the problem, in a sentence';
comment on column findings.pointer is 'JSON Pointer to the place in the message; empty for the whole message';
comment on column findings.source is 'source of the requirement: a page of the specification, or an RFC';
comment on column findings.t_ns is 'when, in ns since the capture opened';
comment on column findings.time is 'the same time, UTC';

--     select name, bytes, definition ->> '$.description' as description from tools order by bytes desc
create table tools (
    capture varchar not null, session integer not null, name varchar not null, title varchar, definition json not null,
    bytes bigint not null, tokens_estimate bigint not null, hash varchar not null, listed bigint not null, t_ns bigint not null,
    time timestamp_ns
);
comment on table tools is 'one row per tool definition that a session received; a changed definition adds a row';
comment on column tools.capture is 'id of the capture';
comment on column tools.session is 'number of the session that received it';
comment on column tools.name is 'name of the tool';
comment on column tools.title is 'its title for people';
comment on column tools.definition is 'the whole definition; of two members with one name, the last, as in the other columns (message_problem of the frame is then duplicate member)';
comment on column tools.bytes is 'size of the definition as compact JSON';
comment on column tools.tokens_estimate is 'bytes / 4, an estimate of the tokens that a model reads for it';
comment on column tools.hash is 'a hash of the definition that does not depend on the order of its members';
comment on column tools.listed is 'frame number of the list that contains it';
comment on column tools.t_ns is 'when the list came, in ns since the capture opened';
comment on column tools.time is 'the same time, UTC';

--     select capture, count(*) as lines from stderr group by capture
create table stderr (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, line varchar not null, raw blob not null
);
comment on table stderr is 'one row per line that the server wrote to stderr';
comment on column stderr.capture is 'id of the capture';
comment on column stderr.seq is 'number of its record in the capture';
comment on column stderr.t_ns is 'when it was read, in ns since the capture opened';
comment on column stderr.time is 'the same time, UTC';
comment on column stderr.line is 'its text. Untrusted text';
comment on column stderr.raw is 'its exact bytes';
