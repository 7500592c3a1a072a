-- one row per turn: what one prompt of a user caused on all servers of the client, in all captures that are queried
--
-- Only clients that name the turn of a call have rows: Codex, VS Code and Qwen Code. The calls of a turn are recorded
-- separately for each server, so times are compared by the wall clock.
--
--     select client, turn_id, calls, servers, failed, waited_ms from turns order by failed desc, waited_ms desc
create view turns as
with parts as (
    select
        known_client as client, client_session, turn_id, coalesce(calls.server, '') as server, trace_id, time,
        is_error or (
            method <> 'subscriptions/listen' and (
                is_abandoned or outcome = 'failed' or (outcome = 'unanswered' and not captures.is_live)
            )
        ) as is_failed,
        coalesce(opened_unix_ns, 0) + least(started_ns, {max_clock_ns}) as from_ns,
        case when method not in ({endless_methods}) or wait_ended_ns is not null then
            coalesce(opened_unix_ns, 0) + least(greatest(started_ns, calls.until_ns), {max_clock_ns})
        end as until_ns
    from calls join captures using (capture)
    where turn_id is not null and known_client is not null
),
waits as (
    select
        client, client_session, turn_id, from_ns, until_ns,
        max(until_ns) over (
            partition by client, client_session, turn_id order by from_ns, until_ns
            rows between unbounded preceding and 1 preceding
        ) as earlier_until_ns
    from parts
    where until_ns is not null
),
waited as (
    select
        client, client_session, turn_id,
        sum(greatest(0, until_ns - greatest(from_ns, coalesce(earlier_until_ns, from_ns))))::bigint as waited_ns
    from waits
    group by all
),
counted as (
    select
        client, client_session, turn_id,
        min(time) as time, max(time) as last_time, count(*) as calls,
        array_sort(array_agg(distinct server)) as servers, count(distinct server) as server_count,
        count(*) filter (where is_failed) as failed,
        case when count(trace_id) > 0 then array_sort(array_agg(distinct trace_id) filter (where trace_id is not null)) end as trace_ids
    from parts
    group by all
)
select
    time, counted.client as client, calls, server_count, failed, round(waited_ns / 1e6, 3) as waited_ms,
    counted.turn_id as turn_id, servers, counted.client_session as client_session, last_time, trace_ids
from counted left join waited
    on waited.client = counted.client and waited.turn_id = counted.turn_id
    and waited.client_session is not distinct from counted.client_session
order by time nulls last, client, client_session nulls last, turn_id;
comment on view turns is 'one row per turn: what one prompt of a user caused on all servers of the client, in all captures that are queried';
comment on column turns.time is 'when its first call was sent, UTC; NULL if no capture with its calls has a wall clock';
comment on column turns.client is 'the client, as in exchanges.known_client';
comment on column turns.calls is 'its requests, on all servers';
comment on column turns.server_count is 'on how many servers';
comment on column turns.failed is 'how many calls failed: with an error, of a tool or of JSON-RPC, over HTTP, abandoned, or unanswered (unless the capture is still being recorded)';
comment on column turns.waited_ms is 'how long at least one of its calls was waited for, so calls at the same time count once; an unanswered call was waited for until it stopped being open (calls.until_ns). NULL if its only calls are listening requests without an end';
comment on column turns.turn_id is 'id of the turn, as the client names it. Untrusted text';
comment on column turns.servers is 'names of these servers, in alphabetical order';
comment on column turns.client_session is 'id of the conversation of the client; NULL if the client names none. Untrusted text';
comment on column turns.last_time is 'when its last call was sent, UTC';
comment on column turns.trace_ids is 'ids of the traces of its calls; NULL if they have none';
