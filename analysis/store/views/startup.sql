-- one row per session: how long it took to start, part by part
--
-- The parts follow each other and do not overlap; `total_ms` is their sum. Time that a client waits before it sends a
-- request is not part of any of them. A part that did not happen, or is not in the capture, is NULL. The modern era has
-- no `initialize`; if the client calls `server/discover` instead, that is timed. If a server writes nothing before its
-- first response, not even to stderr, nothing shows when its process was ready: the rest of its start then counts as
-- part of that response.
--
--     select server, count(*) as sessions, median(process_ms), median(initialize_ms), median(total_ms)
--     from startup group by server
create view startup as
with heard as (
    select
        capture, min(t_ns) filter (where not is_answer) as heard_ns, min(t_ns) filter (where is_answer) as spoke_ns
    from (
        select capture, t_ns, kind in ('response', 'error', 'batch') as is_answer from frames where dir = 's2c'
        union all
        select capture, t_ns, false as is_answer from stderr
    )
    group by capture
),
asked as (
    select
        capture, session,
        min_by(started_ns, (ended_ns, started_ns)) filter (where method in ('initialize', 'server/discover')) as asked_ns,
        min(ended_ns) filter (where method in ('initialize', 'server/discover')) as answered_ns,
        min_by(started_ns, (ended_ns, started_ns)) filter (where method = 'tools/list') as list_ns,
        min(ended_ns) filter (where method = 'tools/list') as listed_ns
    from exchanges
    where asked_by = 'client' and outcome = 'result'
    group by all
),
stations as (
    select
        sessions.opened as time, captures.server as server, sessions.capture as capture, sessions.session as session,
        sessions.server_version as server_version, client_name as client, revision, answered_ns, ready_ns, list_ns, listed_ns,
        -- One process serves all sessions of a capture, and only the first session waits for it.
        case when sessions.session = 1 then spawned_ns end as begun_ns,
        begun_ns is not null and spoke_ns is not null and coalesce(spoke_ns <= heard_ns, true) as is_silent,
        case when begun_ns is not null and not is_silent then heard_ns end as awake_ns,
        greatest(awake_ns, asked_ns) as greeted_ns,
        greatest(list_ns, ready_ns, answered_ns, awake_ns) as asking_ns
    from sessions join captures using (capture)
        left join heard using (capture)
        left join asked on asked.capture = sessions.capture and asked.session = sessions.session
),
parts as (
    select
        *,
        -- `greatest` would turn an unknown value into 0.
        case when awake_ns < begun_ns then 0 else (awake_ns - begun_ns) / 1e6 end as process,
        case when answered_ns < greeted_ns then 0 else (answered_ns - greeted_ns) / 1e6 end as initialize,
        case when ready_ns < answered_ns then 0 else (ready_ns - answered_ns) / 1e6 end as ready,
        case when listed_ns < asking_ns then 0 else (listed_ns - asking_ns) / 1e6 end as first_list
    from stations
)
select
    time, server, capture, session, server_version, client, revision,
    round(process, 3) as process_ms,
    round(initialize, 3) as initialize_ms,
    round(ready, 3) as ready_ms,
    round(first_list, 3) as first_list_ms,
    case
        when coalesce(process, initialize, ready, first_list) is not null
            then round(coalesce(process, 0) + coalesce(initialize, 0) + coalesce(ready, 0) + coalesce(first_list, 0), 3)
    end as total_ms,
    is_silent
from parts
order by time nulls last, capture, session;
comment on view startup is 'one row per session: how long it took to start, part by part';
comment on column startup.time is 'when the session began, UTC';
comment on column startup.server is 'name of the captured server';
comment on column startup.capture is 'id of the capture';
comment on column startup.session is 'number of the session in the capture, from 1';
comment on column startup.server_version is 'version that the server names';
comment on column startup.client is 'name that the client gives itself';
comment on column startup.revision is 'revision of MCP that it speaks';
comment on column startup.process_ms is 'from the start of the process to its first frame or line of stderr; NULL over HTTP, for later sessions of a process, and if is_silent';
comment on column startup.initialize_ms is 'from then, or from the request if that was later, to the result of initialize or server/discover; if is_silent, it includes the time that the client waited for the process to start';
comment on column startup.ready_ms is 'from then until the client sent notifications/initialized';
comment on column startup.first_list_ms is 'how long the first result of tools/list took, without any time before the client became ready';
comment on column startup.total_ms is 'sum of the known parts; NULL if none is known';
comment on column startup.is_silent is 'whether the process wrote nothing before its first response: its start cannot be distinguished from the time of that response';
