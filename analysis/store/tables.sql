-- The tables, filled by analysis.store.load and by nothing else. Every column has its comment here, and docs/sql.md is
-- made from them. `capture` is the same in all of them: the id in the capture's header. Numbers of records, sessions and
-- exchanges are those of the capture, so that every command means the same by them. Times come twice where people ask
-- for both: `t_ns`, nanoseconds since the capture opened, for arithmetic; `time`, wall clock in UTC, for people.

create table captures (
    capture varchar not null, name varchar, path varchar not null, transport varchar, command varchar, upstream varchar,
    format integer, tool_version varchar, opened timestamp_ns, duration_ns bigint, observed_start boolean not null,
    host_pid bigint, host varchar, spawned_ns bigint, ended_ns bigint, ending varchar, exit_status integer, exit_signal varchar,
    is_live boolean not null, frames bigint not null, bytes bigint not null, sessions bigint not null, lost bigint not null,
    unjudged bigint not null, damage bigint not null
);
comment on table captures is 'one row per capture';

create table sessions (
    capture varchar not null, session integer not null, delimited varchar not null, transport varchar, era varchar,
    revision varchar, asked varchar, server varchar, server_version varchar, client varchar, client_version varchar,
    state varchar not null, observed_start boolean not null, opened_ns bigint not null, ready_ns bigint, last_ns bigint,
    opened timestamp_ns, frames bigint not null, requests bigint not null, client_capabilities varchar, server_capabilities varchar
);
comment on table sessions is 'one row per session: one conversation between a client and a server';

create table frames (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, dir varchar not null,
    session integer, conn bigint not null, exchange bigint, unit varchar not null, event_id varchar, kind varchar not null,
    id varchar, method varchar, name varchar, code bigint, problem varchar, size bigint not null, waited_ns bigint,
    request bigint, message json, raw blob not null
);
comment on table frames is 'one row per frame: a line, a body or an event, as it crossed';

create table exchanges (
    capture varchar not null, session integer not null, request bigint not null, item integer, response bigint, id varchar not null,
    method varchar not null, name varchar, asked_by varchar not null, revision varchar, era varchar, outcome varchar not null,
    code bigint, error varchar, started_ns bigint not null, ended_ns bigint, time timestamp_ns, latency_ms double,
    server_ms double, stall_ms double, waiting_ms double, request_bytes bigint not null, response_bytes bigint,
    progress integer not null, cancelled_ns bigint, chain integer, round integer, task varchar, exchange bigint
);
comment on table exchanges is 'one row per request, with what became of it';

create table http_exchanges (
    capture varchar not null, exchange bigint not null, conn bigint not null, peer varchar, method varchar, target varchar,
    status integer, started_ns bigint, head_ns bigint, first_byte_ns bigint, ended_ns bigint, time timestamp_ns, ended_by varchar,
    request_bytes bigint, response_bytes bigint, content_type varchar, session_id varchar, revision varchar, session integer,
    is_stream boolean not null, events bigint not null, resumes bigint, by_proxy boolean not null
);
comment on table http_exchanges is 'one row per request over HTTP';

create table findings (
    capture varchar not null, rule varchar not null, "group" varchar not null, level varchar not null, blames varchar not null,
    session integer not null, frame bigint not null, item integer, related bigint[] not null, method varchar, message varchar not null,
    pointer varchar not null, source varchar not null, t_ns bigint not null, time timestamp_ns
);
comment on table findings is 'one row per finding of check, notes included';

create table tools (
    capture varchar not null, session integer not null, name varchar not null, title varchar, definition json not null,
    bytes bigint not null, tokens_estimate bigint not null, hash varchar not null, listed bigint not null, t_ns bigint not null,
    time timestamp_ns
);
comment on table tools is 'one row per definition of a tool that a session was told: a changed one is a row more';

create table stderr (
    capture varchar not null, seq bigint not null, t_ns bigint not null, time timestamp_ns, line varchar not null, raw blob not null
);
comment on table stderr is 'one row per line that the server wrote to stderr';
