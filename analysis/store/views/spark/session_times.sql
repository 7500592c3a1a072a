-- There is no `asof join`: the next answer after a request is the least of the later ones.
create view session_times as
with asked as (
    select
        capture, session, started_ns, until_ns, state,
        -- From the latest to the earliest: what comes before a row is later, by a nanosecond at least.
        min(case when state = 'answer' then until_ns end) over (
            partition by capture, session order by at_ns desc range between unbounded preceding and 1 preceding
        ) as answered_ns
    from (
        select capture, session, started_ns as at_ns, started_ns, until_ns, state
        from calls
        where asked_by = 'server' and method <> 'ping'
        union all
        select capture, session, until_ns, null, until_ns, 'answer'
        from calls
        where asked_by = 'client' and state = 'answered'
    )
),
spans as (
    select capture, session, started_ns as from_ns, until_ns, 1 as calls, 0 as waits, 0 as stalls
    from calls
    where asked_by = 'client' and open_ms is not null
    union all
    -- A server that responds no longer waits for its own requests.
    select
        capture, session, started_ns,
        case when state in ('unanswered', 'not_recorded') then least(until_ns, answered_ns) else until_ns end, 0, 1, 0
    from asked
    where state <> 'answer'
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
