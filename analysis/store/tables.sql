-- The tables, filled by analysis.store.load and by nothing else. Every column has its comment here, and docs/sql.md is
-- made from them. `capture` is the same in all of them: the id in the capture's header. Numbers of records, sessions and
-- exchanges are those of the capture, so that every command means the same by them. Times come twice where people ask
-- for both: `t_ns`, nanoseconds since the capture opened, for arithmetic; `time`, wall clock in UTC, for people.

--     select name, host, opened, duration_ns / 1e9 as seconds, frames, lost from captures order by opened
create table captures (
    capture varchar not null, name varchar, path varchar not null, transport varchar, command varchar, upstream varchar,
    format integer, tool_version varchar, opened timestamp_ns, duration_ns bigint, observed_start boolean not null,
    host_pid bigint, host varchar, spawned_ns bigint, ended_ns bigint, ending varchar, exit_status integer, exit_signal varchar,
    is_live boolean not null, frames bigint not null, bytes bigint not null, sessions bigint not null, lost bigint not null,
    unjudged bigint not null, damage bigint not null, forgotten bigint not null
);
comment on table captures is 'one row per capture';
comment on column captures.capture is 'id of the capture: the one in its header, 32 hex digits; a hash of its path where the header is lost, or where a larger file in another state has that id';
comment on column captures.name is 'name of the captured server: given by the user, or guessed from the command or URL';
comment on column captures.path is 'file of its first segment';
comment on column captures.transport is 'stdio, http or import (made from a conversation noted down elsewhere); NULL where the header is lost';
comment on column captures.command is 'what was run, words that could hold a secret replaced by a hash; NULL over HTTP';
comment on column captures.upstream is 'URL of the server; NULL on stdio';
comment on column captures.format is 'version of the file format';
comment on column captures.tool_version is 'what wrote it: mcpproxy and its version';
comment on column captures.opened is 'when the recording began, UTC: t_ns 0 of all its records';
comment on column captures.duration_ns is 'from then to its last record; while it is being recorded, to the moment at which it was looked at';
comment on column captures.observed_start is 'whether the recording began before the first byte, so that what is missing at the start never was';
comment on column captures.host_pid is 'process id of the program that started the recorder: the client';
comment on column captures.host is 'name of that program';
comment on column captures.spawned_ns is 'when the server was started, in ns since the capture opened; NULL over HTTP';
comment on column captures.ended_ns is 'when it ended; NULL where that was not seen';
comment on column captures.ending is 'how the recording ended: server, client, signal, failed, record_error or import; NULL where it was not closed';
comment on column captures.exit_status is 'exit status of the server; NULL where a signal killed it or its end was not seen';
comment on column captures.exit_signal is 'name of the signal that killed it';
comment on column captures.is_live is 'whether it is still being recorded';
comment on column captures.frames is 'frames in it';
comment on column captures.bytes is 'bytes of these frames, delimiters not counted';
comment on column captures.sessions is 'sessions in it';
comment on column captures.lost is 'records known to be lost: the recorder could not write them, or they are damaged';
comment on column captures.unjudged is 'frames that could not be looked into, because they are too big, too deep or incomplete';
comment on column captures.damage is 'bytes of its files that are no record; an unfinished record at an end, as a kill leaves it, is none of them';
comment on column captures.forgotten is 'requests, exchanges of HTTP, sessions, calls of several rounds, tasks and subscriptions that had to be forgotten, because more of them were open at once than are remembered; 0 as a rule';

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
comment on column sessions.delimited is 'by what it is told from others: session (a handshake or a session id), connection (a run of the server), peer (a guess by address and credentials)';
comment on column sessions.transport is 'stdio or http';
comment on column sessions.era is 'handshake (revisions up to 2025-11-25), modern (from 2026-07-28), or handshake and modern where a client asked in both; NULL where nothing tells';
comment on column sessions.revision is 'revision of MCP that was agreed on, or else asked for';
comment on column sessions.asked is 'revision that the client asked for';
comment on column sessions.server is 'what the server calls itself. Foreign text; the name under which views know it is captures.name';
comment on column sessions.server_version is 'version that it names';
comment on column sessions.client is 'what the client calls itself. Foreign text';
comment on column sessions.client_version is 'version that it names';
comment on column sessions.state is 'how far the handshake came: new, init-sent, init-answered or ready; stays new in the modern era, which has none';
comment on column sessions.observed_start is 'whether everything that was said in it is in the capture';
comment on column sessions.opened_ns is 'when it began, in ns since the capture opened';
comment on column sessions.ready_ns is 'when the client said initialized; NULL where it did not';
comment on column sessions.last_ns is 'when something was said in it at last';
comment on column sessions.opened is 'when it began, UTC';
comment on column sessions.frames is 'frames in it';
comment on column sessions.requests is 'requests in it, of both sides';
comment on column sessions.client_capabilities is 'what the client declared, as JSON';
comment on column sessions.server_capabilities is 'what the server declared, as JSON';

--     select seq, message ->> '$.params.arguments' as arguments from frames where method = 'tools/call'
create table frames (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, dir varchar not null,
    session integer, conn bigint not null, exchange bigint, unit varchar not null, event_id varchar, kind varchar not null,
    id varchar, method varchar, name varchar, code bigint, problem varchar, size bigint not null, waited_ns bigint,
    request bigint, message json, raw blob not null
);
comment on table frames is 'one row per frame: a line, a body or an event, as it crossed';
comment on column frames.capture is 'id of the capture';
comment on column frames.seq is 'number of its record in the capture; other tables call it frame, request or response';
comment on column frames.t_ns is 'when it was read, in ns since the capture opened';
comment on column frames.time is 'the same moment, UTC';
comment on column frames.dir is 'c2s (client to server) or s2c';
comment on column frames.session is 'number of the session; NULL where it belongs to none';
comment on column frames.conn is 'number of the connection; 0 on stdio';
comment on column frames.exchange is 'number of the HTTP exchange that carried it; NULL on stdio';
comment on column frames.unit is 'line, http_body or sse_event';
comment on column frames.event_id is 'id of the event in a stream; NULL where it has none';
comment on column frames.kind is 'request, response, error, notification, batch, invalid (no message) or unjudged (not looked into)';
comment on column frames.id is 'id of the message as JSON writes it: 7 and "7" are two; NULL where it has none, or one of more than 256 bytes, or an array or object; NULL of a batch and of a part of a message';
comment on column frames.method is 'its method; NULL of answers';
comment on column frames.name is 'tool, prompt or resource that it is about; of an answer, that of its request; cut at 256 characters; NULL where it names none, or an empty one';
comment on column frames.code is 'code of an error';
comment on column frames.problem is 'first rule that this frame breaks by itself; NULL where none';
comment on column frames.size is 'its bytes, the delimiter not counted';
comment on column frames.waited_ns is 'how long it waited because its receiver did not take it; NULL where it did not';
comment on column frames.request is 'number of the frame of the request that it is or answers; NULL where it pairs with none';
comment on column frames.message is 'its JSON; NULL where it is none, or none that this database can read';
comment on column frames.raw is 'its exact bytes';

--     select request, method, name, outcome, latency_ms
--     from exchanges where latency_ms > 100 and asked_by = 'client' order by latency_ms desc
create table exchanges (
    capture varchar not null, session integer not null, request bigint not null, item integer, response bigint, id varchar,
    method varchar not null, name varchar, asked_by varchar not null, revision varchar, era varchar, outcome varchar not null,
    code bigint, error varchar, started_ns bigint not null, ended_ns bigint, time timestamp_ns, latency_ms double,
    server_ms double, stall_ms double, waiting_ms double, request_bytes bigint not null, response_bytes bigint,
    progress integer not null, cancelled_ns bigint, cancel_reason varchar, is_abandoned boolean not null,
    probable_answer bigint, probable_answer_id varchar, in_flight integer, chain integer, round integer, task varchar, exchange bigint
);
comment on table exchanges is 'one row per request, with what became of it';
comment on column exchanges.capture is 'id of the capture: ids of messages and numbers of frames mean something within one capture only';
comment on column exchanges.session is 'number of the session';
comment on column exchanges.request is 'number of the frame of the request';
comment on column exchanges.item is 'its place in that frame, from 0, where the frame is a batch or holds several messages';
comment on column exchanges.response is 'number of the frame of the answer; NULL without one';
comment on column exchanges.id is 'id of the request as JSON writes it, the same as in frames; NULL where that has more than 256 bytes or is an array or object. In a batch, numbers and escapes come in one form';
comment on column exchanges.method is 'what was asked for';
comment on column exchanges.name is 'tool, prompt or resource that it names; cut at 256 characters; NULL where it names none, or an empty one';
comment on column exchanges.asked_by is 'client or server';
comment on column exchanges.revision is 'revision of MCP in force for it';
comment on column exchanges.era is 'handshake or modern';
comment on column exchanges.outcome is 'result, tool_error (a result that says isError), error, input_required (an interim result), task (a task was started), cancelled, failed (its HTTP exchange), unanswered';
comment on column exchanges.code is 'code of the error';
comment on column exchanges.error is 'message of the error, or the first text of what a failing tool returned; cut at 300 characters. Foreign text';
comment on column exchanges.started_ns is 'when it was handed on, in ns since the capture opened: its stamp and its stall';
comment on column exchanges.ended_ns is 'when the answer came; NULL without one';
comment on column exchanges.time is 'when it was sent, UTC';
comment on column exchanges.latency_ms is 'ended_ns - started_ns; NULL without an answer';
comment on column exchanges.server_ms is 'latency_ms - waiting_ms: what the answering side itself took';
comment on column exchanges.stall_ms is 'how long it waited before it was handed on, because its receiver did not take it';
comment on column exchanges.waiting_ms is 'how much of the latency the answering side waited for answers to requests of its own, as of sampling, elicitation and roots';
comment on column exchanges.request_bytes is 'size of the frame of the request';
comment on column exchanges.response_bytes is 'size of the frame of the answer; NULL without one';
comment on column exchanges.progress is 'how many notifications told of its progress';
comment on column exchanges.cancelled_ns is 'when it was first cancelled; NULL where it was not. An answer may have come all the same';
comment on column exchanges.cancel_reason is 'the reason that the cancellation gave; NULL where it gave none; cut at 300 characters. Foreign text';
comment on column exchanges.is_abandoned is 'whether whoever asked gave it up: cancelled for a reason that says time-out, or after 5 s or more';
comment on column exchanges.probable_answer is 'of a request without an answer: number of the frame of the first answer that fits no request and was probably meant for this one, the only one or the oldest that was open then; NULL where there is none. A guess';
comment on column exchanges.probable_answer_id is 'id of that answer as JSON writes it; NULL where it has none, or null; cut at 60 characters. Foreign text';
comment on column exchanges.in_flight is 'how many requests of its session were without an answer and not cancelled when it was sent, itself included';
comment on column exchanges.chain is 'number of the call that it is a round of, where interim results made several of one (from 2026-07-28)';
comment on column exchanges.round is 'which round of it, from 1';
comment on column exchanges.task is 'id of the task that it started or is about';
comment on column exchanges.exchange is 'number of the HTTP exchange that carried the request; NULL on stdio';

--     select method, status, count(*) as requests from http_exchanges group by all
create table http_exchanges (
    capture varchar not null, exchange bigint not null, conn bigint not null, peer varchar, method varchar, target varchar,
    status integer, started_ns bigint, head_ns bigint, first_byte_ns bigint, ended_ns bigint, time timestamp_ns, ended_by varchar,
    request_bytes bigint, response_bytes bigint, content_type varchar, session_id varchar, revision varchar, session integer,
    is_stream boolean not null, events bigint not null, resumes bigint, by_proxy boolean not null
);
comment on table http_exchanges is 'one row per request over HTTP';
comment on column http_exchanges.capture is 'id of the capture';
comment on column http_exchanges.exchange is 'number of the exchange in the capture';
comment on column http_exchanges.conn is 'number of the connection';
comment on column http_exchanges.peer is 'address of the client';
comment on column http_exchanges.method is 'method of HTTP, such as POST';
comment on column http_exchanges.target is 'what was asked for: path and query, secrets replaced by a hash';
comment on column http_exchanges.status is 'status of the response; NULL before it came, and where none did';
comment on column http_exchanges.started_ns is 'when the head of the request was read, in ns since the capture opened';
comment on column http_exchanges.head_ns is 'when the head of the response was read';
comment on column http_exchanges.first_byte_ns is 'when the first byte of its body was read';
comment on column http_exchanges.ended_ns is 'when it ended; NULL while it lasts';
comment on column http_exchanges.time is 'when it began, UTC';
comment on column http_exchanges.ended_by is 'complete, client, server, proxy or error; NULL while it lasts';
comment on column http_exchanges.request_bytes is 'bytes of the body of the request';
comment on column http_exchanges.response_bytes is 'bytes of the body of the response';
comment on column http_exchanges.content_type is 'content type of the response';
comment on column http_exchanges.session_id is 'a hash of the session id of MCP in its header';
comment on column http_exchanges.revision is 'revision of MCP that the header of the request names';
comment on column http_exchanges.session is 'number of the session that its messages belong to';
comment on column http_exchanges.is_stream is 'whether the response is a stream of events';
comment on column http_exchanges.events is 'events in it';
comment on column http_exchanges.resumes is 'number of the exchange whose stream it goes on with';
comment on column http_exchanges.by_proxy is 'whether the recorder itself answered, because the server could not be reached';

--     select level, rule, message, capture, frame from findings where level <> 'note'
create table findings (
    capture varchar not null, rule varchar not null, "group" varchar not null, level varchar not null, blames varchar not null,
    session integer not null, frame bigint not null, item integer, related bigint[] not null, method varchar, message varchar not null,
    pointer varchar not null, source varchar not null, t_ns bigint not null, time timestamp_ns
);
comment on table findings is 'one row per finding of check, notes included';
comment on column findings.capture is 'id of the capture';
comment on column findings.rule is 'id of the rule; `mcpproxy rule ID` explains it';
comment on column findings."group" is 'the part of it before the slash. A word of SQL: write "group"';
comment on column findings.level is 'error (forbidden), warning (should not be), or note (legal, worth knowing)';
comment on column findings.blames is 'whose doing it is: client, server, transport or unknown';
comment on column findings.session is 'number of the session; 0 where it belongs to none';
comment on column findings.frame is 'number of the record at which it shows';
comment on column findings.item is 'the place of the message in its frame, where that holds several';
comment on column findings.related is 'numbers of other records that prove it';
comment on column findings.method is 'method of the message, of an answer that of its request';
comment on column findings.message is 'what is wrong, in a sentence';
comment on column findings.pointer is 'where in the message: a JSON Pointer; empty for the whole of it';
comment on column findings.source is 'what obliges: a page of the specification, or an RFC';
comment on column findings.t_ns is 'when, in ns since the capture opened';
comment on column findings.time is 'the same moment, UTC';

--     select name, bytes, definition ->> '$.description' as description from tools order by bytes desc
create table tools (
    capture varchar not null, session integer not null, name varchar not null, title varchar, definition json not null,
    bytes bigint not null, tokens_estimate bigint not null, hash varchar not null, listed bigint not null, t_ns bigint not null,
    time timestamp_ns
);
comment on table tools is 'one row per definition of a tool that a session was told: a changed one is a row more';
comment on column tools.capture is 'id of the capture';
comment on column tools.session is 'number of the session that was told';
comment on column tools.name is 'name of the tool';
comment on column tools.title is 'its title for people';
comment on column tools.definition is 'all of the definition';
comment on column tools.bytes is 'size of the definition as JSON without blanks';
comment on column tools.tokens_estimate is 'bytes / 4, an estimate of what a model reads for it';
comment on column tools.hash is 'a hash of the definition, the same in whatever order its members come';
comment on column tools.listed is 'number of the frame of the list in which it stands';
comment on column tools.t_ns is 'when that came, in ns since the capture opened';
comment on column tools.time is 'the same moment, UTC';

--     select capture, count(*) as lines from stderr group by capture
create table stderr (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, line varchar not null, raw blob not null
);
comment on table stderr is 'one row per line that the server wrote to stderr';
comment on column stderr.capture is 'id of the capture';
comment on column stderr.seq is 'number of its record in the capture';
comment on column stderr.t_ns is 'when it was read, in ns since the capture opened';
comment on column stderr.time is 'the same moment, UTC';
comment on column stderr.line is 'its text. Foreign text';
comment on column stderr.raw is 'its exact bytes';
