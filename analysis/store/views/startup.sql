-- one row per session: how long it took to come up, part by part
--
-- The parts follow each other and do not overlap; `total_ms` is their sum. Time that a client let pass before it asked
-- is in none. A part that did not happen, or was not seen, is NULL. In the modern era there is no `initialize`; where
-- the client asks for `server/discover` instead, that is timed. A server that says nothing before its first answer, not
-- even to stderr, does not show when it was up: the rest of its start is then in the part of that answer.
--
--     select server, count(*) as sessions, median(process_ms), median(initialize_ms), median(total_ms)
--     from startup group by server
create view startup as
with heard as (
    select
        capture, min(t_ns) filter (not is_answer) as heard_ns, min(t_ns) filter (is_answer) as spoke_ns
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
        arg_min(started_ns, ended_ns) filter (method in ('initialize', 'server/discover')) as asked_ns,
        min(ended_ns) filter (method in ('initialize', 'server/discover')) as answered_ns,
        arg_min(started_ns, ended_ns) filter (method = 'tools/list') as list_ns,
        min(ended_ns) filter (method = 'tools/list') as listed_ns
    from exchanges
    where asked_by = 'client' and outcome = 'result'
    group by all
),
stations as (
    select
        sessions.opened as time, captures.name as server, sessions.capture as capture, sessions.session as session,
        sessions.server_version as server_version, client, revision, answered_ns, ready_ns, list_ns, listed_ns,
        -- One process serves all sessions of a capture, and only the first of them waits for it.
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
        -- `greatest` would make a 0 of what is not known.
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
    round(list_sum([process, initialize, ready, first_list]), 3) as total_ms,
    is_silent
from parts
order by time, capture, session;
comment on view startup is 'one row per session: how long it took to come up, part by part';
comment on column startup.time is 'when the session began, UTC';
comment on column startup.server is 'name of the captured server';
comment on column startup.capture is 'id of the capture';
comment on column startup.session is 'number of the session in the capture, from 1';
comment on column startup.server_version is 'version that the server names';
comment on column startup.client is 'what the client calls itself';
comment on column startup.revision is 'revision of MCP that it speaks';
comment on column startup.process_ms is 'from the start of the process to its first frame or line of stderr; NULL over HTTP, of a second session of one process, and where is_silent';
comment on column startup.initialize_ms is 'from then, or from when it was asked if that was later, to the result of initialize or server/discover; where is_silent, the start of the process is in it as far as the client waited for it';
comment on column startup.ready_ms is 'from then until the client said initialized';
comment on column startup.first_list_ms is 'how long the first result of tools/list took; what was already over of it when the client became ready is not counted again';
comment on column startup.total_ms is 'sum of the parts that are known; NULL where none is';
comment on column startup.is_silent is 'whether the process said nothing before its first answer: how long it took to start cannot be told apart from how long it took to answer';
