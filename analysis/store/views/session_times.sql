-- one row per session: its time, split into server time, client time and stalled time
--
-- During server time, a client request is open (the handshake included), and the server is not waiting for the client, as
-- it does for sampling, elicitation and roots. Overlapping requests count once. An unanswered request is open until it is
-- cancelled or the session ends; `subscriptions/listen`, `events/stream` and streams that only listen do not count. During
-- stalled time, a frame in either direction waits for its receiver to read it. Client time is the rest, in which the model
-- or the user is busy. The three add up to the length of the session.
--
--     select server, client, session_ms, server_ms / session_ms as server_share, waiting_ms, stalled_ms from session_times
create view session_times as
with answered as (
    select capture, session, until_ns from calls where asked_by = 'client' and state = 'answered'
),
spans as (
    select capture, session, started_ns as from_ns, until_ns, 1 as calls, 0 as waits, 0 as stalls
    from calls
    where asked_by = 'client' and open_ms is not null
    union all
    -- A server that responds no longer waits for its own requests.
    select
        asked.capture, asked.session, asked.started_ns,
        case when state in ('unanswered', 'not_recorded') then least(asked.until_ns, answered.until_ns) else asked.until_ns end, 0, 1, 0
    from calls as asked asof left join answered
        on answered.capture = asked.capture and answered.session = asked.session and answered.until_ns > started_ns
    where asked_by = 'server' and method <> 'ping'
    union all
    select capture, session, t_ns, t_ns + stall_ns, 0, 0, 1
    from frames
    where stall_ns > 0 and session is not null
),
edges as (
    select capture, session, from_ns as at_ns, calls, waits, stalls from spans
    union all
    select capture, session, until_ns, -calls, -waits, -stalls from spans
),
slices as (
    select
        capture, session, at_ns,
        (lead(at_ns) over sweep) - at_ns as ns,
        sum(calls) over sweep as calls,
        sum(waits) over sweep as waits,
        sum(stalls) over sweep as stalls
    from edges
    window sweep as (partition by capture, session order by at_ns)
),
measured as (
    select
        capture, session, min(at_ns) as first_ns, max(at_ns) as last_ns,
        sum(ns) filter (where calls > 0 and waits = 0 and stalls = 0) as server_ns,
        sum(ns) filter (where waits > 0 and stalls = 0) as waiting_ns,
        sum(ns) filter (where stalls > 0) as stalled_ns
    from slices
    group by all
),
unanswered as (
    select capture, session, count(*) as unanswered
    from calls
    where asked_by = 'client' and state = 'unanswered' and open_ms is not null
    group by all
),
timed as (
    select
        sessions.opened as time, captures.server as server, client_name as client, sessions.capture as capture,
        sessions.session as session,
        greatest(
            sessions.last_ns, measured.last_ns,
            -- On stdio a session lasts as long as its server runs; over HTTP nothing shows when a client has left.
            case when sessions.transport is distinct from 'http' then coalesce(captures.ended_ns, duration_ns) end,
            opened_ns
        ) - least(opened_ns, first_ns) as session_ns,
        coalesce(server_ns, 0) as server_ns, coalesce(waiting_ns, 0) as waiting_ns,
        coalesce(stalled_ns, 0) as stalled_ns, coalesce(unanswered, 0) as unanswered
    from sessions join captures using (capture)
        left join measured on measured.capture = sessions.capture and measured.session = sessions.session
        left join unanswered on unanswered.capture = sessions.capture and unanswered.session = sessions.session
)
select
    time, server, client, capture, session,
    round(session_ns / 1e6, 3) as session_ms,
    round(server_ns / 1e6, 3) as server_ms,
    round((session_ns - server_ns - stalled_ns) / 1e6, 3) as client_ms,
    round(waiting_ns / 1e6, 3) as waiting_ms,
    round(stalled_ns / 1e6, 3) as stalled_ms,
    unanswered
from timed
order by time nulls last, capture, session;
comment on view session_times is 'one row per session: its time, split into server time, client time and stalled time';
comment on column session_times.time is 'when the session began, UTC';
comment on column session_times.server is 'name of the captured server';
comment on column session_times.client is 'name that the client gives itself. Untrusted text';
comment on column session_times.capture is 'id of the capture';
comment on column session_times.session is 'number of the session in the capture, from 1';
comment on column session_times.session_ms is 'from the start of the session to its end: on stdio the end of the server, over HTTP the last message or the end of the last open request; while the capture is being recorded, when it was read';
comment on column session_times.server_ms is 'how long client requests were open, without waiting_ms and stalled_ms; overlapping requests count once';
comment on column session_times.client_ms is 'the rest: session_ms - server_ms - stalled_ms';
comment on column session_times.waiting_ms is 'the part of client_ms in which the server waited for a response from the client, as for sampling, elicitation and roots; its pings do not count';
comment on column session_times.stalled_ms is 'how long a frame in either direction waited for its receiver to read it: neither server nor client time';
comment on column session_times.unanswered is 'unanswered client requests: server_ms counts them until the session ends';
