-- one row per request or notification in two captures of one conversation, taken nearer to the client and to the server
--
-- Two captures have a conversation in common if they share a trace context or a session id (hashed with the same key), or
-- if they are the only two that are queried. Their times must overlap; clocks of different machines may differ by ten
-- minutes. Sessions belong together if they share most. Their messages are paired by trace context, then by id and equal
-- params unless something between them renumbers, then by equal params in order. If one side has more equal messages
-- than the other, it is not certain which of them is missing. The capture in which the client waits longer was taken nearer to
-- the client. Clocks are compared by the messages themselves: the offset is halfway between the shortest times there and back.
--
--     select method, name, client_frame, server_frame, request_hop_ms, response_hop_ms
--     from both_sides order by request_hop_ms + response_hop_ms desc
create view both_sides as
with http as (
    select capture, exchange, max(case when not by_proxy then status end) as status, max(session_id) as session_id from http_exchanges group by all
),
said as (
    select
        exchanges.capture as capture, coalesce(exchanges.session, 0) as session, 'request' as kind, asked_by as sender,
        exchanges.method as method, name, id, trace, params_hash as params, response_hash as answer, request as frame,
        coalesce(item, -1) as item, response, exchanges.started_ns as t_ns, exchanges.ended_ns as ended_ns,
        exchanges.time as time, time_is_exact, outcome, http.status as status, session_id, cancelled_ns
    from exchanges
        left join http on http.capture = exchanges.capture and http.exchange = exchanges.exchange
    where (select count(*) from captures) > 1
    union all
    select
        capture, coalesce(session, 0), 'notification', case dir when 'c2s' then 'client' else 'server' end, method, name,
        null, null, params_hash, null, seq, -1, null, t_ns, null, time, time_is_exact, null, null, null, null
    from frames
    where kind = 'notification' and (select count(*) from captures) > 1
),
spans as (
    select
        said.capture as capture, min(captures.machine) as machine, min(said.time) as began, max(said.time) as ended,
        case when min(captures.begins_at) = 0 then 0 else min(t_ns) end as first_ns,
        min(captures.duration_ns) as last_ns,
        min(lost + unjudged + forgotten + unrecorded + damage) > 0 as has_losses
    from said join captures on captures.capture = said.capture
    group by said.capture
),
marks as (
    select distinct capture, case mark when 1 then trace else session_id end as value, mark
    from said cross join (select 1 as mark union all select 2) as kinds
    where case mark when 1 then trace else session_id end is not null
),
related as (
    select distinct mine.capture as one, theirs.capture as other
    from marks as mine
        join marks as theirs on mine.mark = theirs.mark and mine.value = theirs.value and mine.capture < theirs.capture
    union
    select min(capture), max(capture) from captures having count(*) = 2
),
links as (
    select one, other, is_one, case when is_one then one else other end as capture
    from related
        join spans as mine on mine.capture = one
        join spans as theirs on theirs.capture = other
        cross join (select true as is_one union all select false) as captures_of_pair
    where mine.began is null or theirs.began is null
        or case
            when mine.machine = theirs.machine
                then mine.began <= theirs.ended + interval 2 seconds and theirs.began <= mine.ended + interval 2 seconds
            else mine.began <= theirs.ended + interval 10 minutes and theirs.began <= mine.ended + interval 10 minutes
        end
),
sided as (
    select
        one, other, is_one, said.*,
        count(*) over (partition by one, other, is_one, session) as session_messages
    from links join said on said.capture = links.capture
),
-- Sessions: each equal message, trace context and session id is a vote for the sessions that have it.
ballots as (
    select
        one, other, is_one, session, session_messages, ballot,
        case ballot when 1 then concat(kind, ' ', sender, ' ', method, ' ', params) when 2 then trace else session_id end as value,
        t_ns, frame, item
    from sided cross join (select 1 as ballot union all select 2 union all select 3) as ballots
    where case ballot when 1 then params is not null when 2 then trace is not null else session_id is not null end
),
placed as (
    select
        *,
        row_number() over (partition by one, other, ballot, value, is_one order by t_ns, frame, item) as place,
        sum(case when is_one then 1 else -1 end) over equals as surplus,
        min(case when is_one then session end) over equals = max(case when is_one then session end) over equals
            and min(case when not is_one then session end) over equals
                = max(case when not is_one then session end) over equals as is_of_two_sessions
    from ballots
    window equals as (partition by one, other, ballot, value)
),
votes as (
    select
        one, other, ballot, max(case when is_one then session end) as one_session,
        max(case when not is_one then session end) as other_session,
        max(case when is_one then session_messages end) as one_messages,
        max(case when not is_one then session_messages end) as other_messages
    from placed
    where surplus = 0 or is_of_two_sessions
    group by one, other, ballot, value, place
    having count(*) = 2
),
tally as (
    select
        one, other, one_session, other_session, max(one_messages) as one_messages, max(other_messages) as other_messages,
        sum(case ballot when 1 then 1 when 2 then 1000 else 1000000 end) as votes
    from votes
    group by one, other, one_session, other_session
),
ranked as (
    select
        *,
        row_number() over (partition by one, other, one_session order by votes desc, other_session) = 1 as is_best_of_one,
        row_number() over (partition by one, other, other_session order by votes desc, one_session) = 1 as is_best_of_other
    from tally
),
elected as (
    select
        *,
        max(case when is_best_of_one and (is_best_of_other or votes * 2 >= one_messages) then other_session end) over (
            partition by one, other, one_session
        ) as scope
    from ranked
),
scopes as (
    select
        one, other, is_one, case when is_one then one_session else other_session end as session, scope
    from elected cross join (select true as is_one union all select false) as captures_of_pair
    where scope is not null
        and case when is_one then is_best_of_one else is_best_of_other and (is_best_of_one or votes * 2 >= other_messages) end
),
scoped as (
    select
        sided.*, scope, case when sided.is_one then 1 else -1 end as side,
        count(*) over equals as alike,
        sum(case when sided.is_one then 1 else -1 end) over equals as surplus,
        min(id) over equals = max(id) over equals as has_same_id
    from sided
        left join scopes
            on scopes.one = sided.one and scopes.other = sided.other and scopes.is_one = sided.is_one
                and scopes.session = sided.session
    window equals as (partition by sided.one, sided.other, scope, kind, sender, method, params)
),
numbering as (
    select
        *,
        coalesce(
            min(case when alike = 2 and surplus = 0 then case when has_same_id then 1 when not has_same_id then 0 end end) over (
                partition by one, other, scope
            ) = 1,
            false
        ) as keeps_ids
    from scoped
),
-- Pairs: each step counts the messages that it could pair, and pairs them in order if both sides have as many.
step_1 as (
    select
        *,
        trace is not null and scope is not null and params is not null and sum(side) over equals = 0 as has_trace,
        row_number() over (
            partition by one, other, scope, kind, sender, method, trace, params, is_one order by t_ns, frame, item
        ) as place_1
    from numbering
    window equals as (partition by one, other, scope, kind, sender, method, trace, params)
),
step_2 as (
    select
        *,
        not has_trace and keeps_ids and id is not null and scope is not null and params is not null
            and sum(side) over equals = 0 as has_id,
        row_number() over (
            partition by one, other, scope, kind, sender, method, has_trace, id, params, is_one order by t_ns, frame, item
        ) as place_2
    from step_1
    window equals as (partition by one, other, scope, kind, sender, method, has_trace, id, params)
),
step_3 as (
    select
        *,
        not has_trace and not has_id and answer is not null and scope is not null and params is not null
            and sum(side) over equals = 0 as has_answer,
        row_number() over (
            partition by one, other, scope, kind, sender, method, has_trace or has_id, params, answer, is_one
            order by t_ns, frame, item
        ) as place_3
    from step_2
    window equals as (partition by one, other, scope, kind, sender, method, has_trace or has_id, params, answer)
),
step_4 as (
    select
        *,
        has_trace or has_id or has_answer as is_sure,
        not has_trace and not has_id and not has_answer and scope is not null and params is not null
            and sum(side) over equals = 0 as has_params,
        not has_trace and not has_id and not has_answer and scope is not null and params is not null
            and row_number() over (
                partition by one, other, scope, kind, sender, method, has_trace or has_id or has_answer, params, is_one
                order by t_ns, frame, item
            ) <= (count(*) over equals - abs(sum(side) over equals)) / 2 as is_one_of_many,
        not has_trace and not has_id and not has_answer and params is not null
            and count(*) over equals > abs(sum(side) over equals) as is_surplus,
        count(*) over equals as left_alike,
        row_number() over (
            partition by one, other, scope, kind, sender, method, has_trace or has_id or has_answer, params, is_one
            order by t_ns, frame, item
        ) as place_4
    from step_3
    window equals as (partition by one, other, scope, kind, sender, method, has_trace or has_id or has_answer, params)
),
step_5 as (
    select
        *,
        not is_sure and not has_params and trace is not null and scope is not null
            and count(*) over equals = 2 and sum(side) over equals = 0 as has_trace_only
    from step_4
    window equals as (partition by one, other, scope, kind, sender, method, is_sure or has_params, trace)
),
step_6 as (
    select
        *,
        not is_sure and not has_params and not has_trace_only and id is not null and scope is not null
            and count(*) over equals = 2 and sum(side) over equals = 0 as has_id_only
    from step_5
    window equals as (partition by one, other, scope, kind, sender, method, is_sure or has_params or has_trace_only, id)
),
step_7 as (
    select
        *,
        not is_sure and not has_params and not has_trace_only and not has_id_only and not is_surplus
            and scope is not null and count(*) over equals = 2 and sum(side) over equals = 0 as has_name_only
    from step_6
    window equals as (
        partition by one, other, scope, kind, sender, method, name,
            is_sure or has_params or has_trace_only or has_id_only or is_surplus
    )
),
stepped as (
    select
        *,
        case
            when has_trace then 1 when has_id then 2 when has_answer then 3 when has_params then 4
            when has_trace_only then 5 when has_id_only then 6 when is_one_of_many then 7 when has_name_only then 8
            else 0
        end as step
    from step_7
),
keyed as (
    select
        *,
        case step
            when 1 then place_1 when 2 then place_2 when 3 then place_3 when 4 then place_4 when 7 then place_4 else 1
        end as place,
        case step
            when 1 then concat(trace, ' ', params) when 2 then concat(id, ' ', params)
            when 3 then concat(params, ' ', answer) when 4 then concat(params, '') when 5 then trace when 6 then id
            when 7 then concat(params, '') when 8 then coalesce(name, '') else concat(side, ' ', frame, ' ', item)
        end as pair_key
    from stepped
),
paired as (
    select
        one, other, scope, kind, sender, method, step, max(name) as name,
        case step
            when 0 then not bool_or(is_surplus)
            when 4 then max(left_alike) = 2 or coalesce(max(case when is_one then answer end) = max(case when not is_one then answer end), true)
            when 6 then bool_and(keeps_ids)
            when 7 then false
            when 8 then method = 'initialize'
            else true
        end as is_certain,
        bool_and(time_is_exact) as time_is_exact,
        max(case when is_one then session end) as one_session,
        max(case when is_one then frame end) as one_frame,
        max(case when is_one then item end) as one_item,
        max(case when is_one then response end) as one_response,
        max(case when is_one then id end) as one_id,
        max(case when is_one then params end) as one_params,
        max(case when is_one then answer end) as one_answer,
        max(case when is_one then t_ns end) as one_t_ns,
        max(case when is_one then ended_ns end) as one_ended_ns,
        max(case when is_one then time end) as one_time,
        max(case when is_one then outcome end) as one_outcome,
        max(case when is_one then status end) as one_status,
        max(case when is_one then cancelled_ns end) as one_cancelled_ns,
        max(case when not is_one then session end) as other_session,
        max(case when not is_one then frame end) as other_frame,
        max(case when not is_one then item end) as other_item,
        max(case when not is_one then response end) as other_response,
        max(case when not is_one then id end) as other_id,
        max(case when not is_one then params end) as other_params,
        max(case when not is_one then answer end) as other_answer,
        max(case when not is_one then t_ns end) as other_t_ns,
        max(case when not is_one then ended_ns end) as other_ended_ns,
        max(case when not is_one then time end) as other_time,
        max(case when not is_one then outcome end) as other_outcome,
        max(case when not is_one then status end) as other_status,
        max(case when not is_one then cancelled_ns end) as other_cancelled_ns
    from keyed
    group by one, other, scope, kind, sender, method, step, pair_key, place
),
-- Clocks: how much later each message was seen in the second capture, by its direction.
hops as (
    select
        *,
        case
            when step = 0 or not is_certain then null
            when sender = 'client' then other_t_ns - one_t_ns
            when one_answer = other_answer then other_ended_ns - one_ended_ns
        end as to_server_ns,
        case
            when step = 0 or not is_certain then null
            when sender = 'server' then other_t_ns - one_t_ns
            when one_answer = other_answer then other_ended_ns - one_ended_ns
        end as to_client_ns,
        case
            when step > 0 and is_certain and one_answer = other_answer then
                sign((one_ended_ns - one_t_ns) - (other_ended_ns - other_t_ns)) * case sender when 'client' then 1 else -1 end
        end as longer_in_one
    from paired
),
facing as (
    select
        *,
        case
            when coalesce(sum(longer_in_one) over captures_pair, 0) <> 0 then sum(longer_in_one) over captures_pair > 0
            else coalesce(sum(
                case when to_server_ns is null or one_time = other_time then 0 when one_time < other_time then 1 else -1 end
            ) over captures_pair, 0) >= 0
        end as is_one_client,
        max(step) over captures_pair > 0 as is_joined
    from hops
    window captures_pair as (partition by one, other)
),
bounded as (
    select
        *,
        case when is_one_client then min(to_server_ns) over captures_pair else max(to_server_ns) over captures_pair end as there_ns,
        case when is_one_client then max(to_client_ns) over captures_pair else min(to_client_ns) over captures_pair end as back_ns
    from facing
    where is_joined
    window captures_pair as (partition by one, other)
),
oriented as (
    select
        scope, kind, sender, method, name, step, is_certain, time_is_exact,
        case when is_one_client then 1 else -1 end * floor((coalesce(there_ns, back_ns) + coalesce(back_ns, there_ns)) / 2)::bigint as offset_ns,
        abs(there_ns - back_ns) as width_ns,
        case when is_one_client then one else other end as client_capture,
        case when is_one_client then one_session else other_session end as client_session,
        case when is_one_client then one_frame else other_frame end as client_frame,
        case when is_one_client then one_item else other_item end as client_item,
        case when is_one_client then one_response else other_response end as client_response,
        case when is_one_client then one_id else other_id end as client_id,
        case when is_one_client then one_params else other_params end as client_params,
        case when is_one_client then one_answer else other_answer end as client_answer,
        case when is_one_client then one_t_ns else other_t_ns end as client_t_ns,
        case when is_one_client then one_ended_ns else other_ended_ns end as client_ended_ns,
        case when is_one_client then one_time else other_time end as client_time,
        case when is_one_client then one_outcome else other_outcome end as client_outcome,
        case when is_one_client then one_status else other_status end as client_status,
        case when is_one_client then one_cancelled_ns else other_cancelled_ns end as client_cancelled_ns,
        case when is_one_client then other else one end as server_capture,
        case when is_one_client then other_session else one_session end as server_session,
        case when is_one_client then other_frame else one_frame end as server_frame,
        case when is_one_client then other_item else one_item end as server_item,
        case when is_one_client then other_response else one_response end as server_response,
        case when is_one_client then other_id else one_id end as server_id,
        case when is_one_client then other_params else one_params end as server_params,
        case when is_one_client then other_answer else one_answer end as server_answer,
        case when is_one_client then other_t_ns else one_t_ns end as server_t_ns,
        case when is_one_client then other_ended_ns else one_ended_ns end as server_ended_ns,
        case when is_one_client then other_time else one_time end as server_time,
        case when is_one_client then other_outcome else one_outcome end as server_outcome,
        case when is_one_client then other_status else one_status end as server_status,
        case when is_one_client then other_cancelled_ns else one_cancelled_ns end as server_cancelled_ns
    from bounded
),
-- What one capture lacks can only be missing if the other one covers that time: at its end, some messages are on the way.
judged as (
    select
        oriented.*,
        case
            when client_frame is null then
                server_t_ns - offset_ns between near.first_ns + margin_ns and near.last_ns - margin_ns - 100000000
            when server_frame is null then
                client_t_ns + offset_ns between far.first_ns + margin_ns and far.last_ns - margin_ns - 100000000
            else true
        end as is_request_covered,
        case
            when client_ended_ns is null and server_ended_ns is not null then
                server_ended_ns - offset_ns between near.first_ns + margin_ns and near.last_ns - margin_ns - 100000000
            when server_ended_ns is null and client_ended_ns is not null then
                client_ended_ns + offset_ns between far.first_ns + margin_ns and far.last_ns - margin_ns - 100000000
            else true
        end as is_response_covered,
        case
            when client_frame is null or (client_ended_ns is null and server_ended_ns is not null) then near.has_losses
            when server_frame is null or (server_ended_ns is null and client_ended_ns is not null) then far.has_losses
            else false
        end as may_be_unrecorded,
        (client_t_ns + offset_ns - server_t_ns) / 1e6 * case sender when 'client' then -1 else 1 end as there_ms,
        (client_ended_ns + offset_ns - server_ended_ns) / 1e6 * case sender when 'client' then 1 else -1 end as back_ms
    from (select *, coalesce(width_ns, 0) as margin_ns from oriented) as oriented
        join spans as near on near.capture = client_capture
        join spans as far on far.capture = server_capture
    where scope is not null or client_frame is not null
)
select
    coalesce(client_time, server_time) as time,
    client_capture, server_capture, kind, sender, method, name,
    round(client_t_ns / 1e6, 3) as client_ms, client_session, client_frame, nullif(client_item, -1) as client_item, client_response, client_id, client_outcome,
    client_status, client_cancelled_ns is not null as client_is_cancelled,
    round(server_t_ns / 1e6, 3) as server_ms, server_session, server_frame, nullif(server_item, -1) as server_item, server_response, server_id, server_outcome,
    server_status, server_cancelled_ns is not null as server_is_cancelled,
    step > 0 as is_pair,
    is_certain and not may_be_unrecorded and coalesce(there_ms, 0) > -1000 as is_certain,
    is_request_covered, is_response_covered,
    client_params <> server_params as is_request_changed,
    client_answer <> server_answer as is_response_changed,
    client_id <> server_id as is_id_changed,
    coalesce(
        case sender when 'client' then server_t_ns else client_t_ns end < max(
            case when step > 0 and is_certain then case sender when 'client' then server_t_ns else client_t_ns end end
        ) over (
            partition by client_capture, server_capture, scope, sender
            order by case sender when 'client' then client_t_ns else server_t_ns end,
                case sender when 'client' then client_frame else server_frame end, client_item, server_item
            rows between unbounded preceding and 1 preceding
        ) and step > 0 and is_certain,
        false
    ) as is_order_changed,
    case when time_is_exact and step > 0 and is_certain then round(there_ms, 3) end as request_hop_ms,
    case when time_is_exact and step > 0 and is_certain and client_answer = server_answer then round(back_ms, 3) end as response_hop_ms,
    round(offset_ns / 1e6, 3) as offset_ms,
    round(width_ns / 2e6, 3) as offset_error_ms
from judged
order by time nulls last, client_capture, server_capture, client_frame nulls last, server_frame nulls last, client_item nulls last, server_item nulls last;
comment on view both_sides is 'one row per request or notification in two captures of one conversation, taken nearer to the client and to the server';
comment on column both_sides.time is 'when it was sent, UTC, by the clock of the capture nearer to the client; if that lacks it, by the other clock';
comment on column both_sides.client_capture is 'id of the capture that was taken nearer to the client';
comment on column both_sides.server_capture is 'id of the capture that was taken nearer to the server';
comment on column both_sides.kind is 'request or notification';
comment on column both_sides.sender is 'its sender: client or server';
comment on column both_sides.method is 'its method';
comment on column both_sides.name is 'the tool, prompt or resource that it is about; NULL if it names none';
comment on column both_sides.client_ms is 'when it was there, in ms since that capture opened; NULL if that capture lacks it';
comment on column both_sides.client_session is 'number of its session in the capture nearer to the client; NULL if that lacks it';
comment on column both_sides.client_frame is 'number of its frame there; NULL if that capture lacks it';
comment on column both_sides.client_item is 'its place in that frame, from 0, if the frame contains several messages';
comment on column both_sides.client_response is 'for a request: frame number of the response there';
comment on column both_sides.client_id is 'for a request: its id there, as JSON writes it';
comment on column both_sides.client_outcome is 'for a request: its outcome there, as in exchanges';
comment on column both_sides.client_status is 'for a request over HTTP: the status of the HTTP response there';
comment on column both_sides.client_is_cancelled is 'for a request: whether it was cancelled there, or its client closed its HTTP exchange';
comment on column both_sides.server_ms is 'when it was there, in ms since that capture opened; NULL if that capture lacks it';
comment on column both_sides.server_session is 'number of its session in the capture nearer to the server; NULL if that lacks it';
comment on column both_sides.server_frame is 'number of its frame there; NULL if that capture lacks it';
comment on column both_sides.server_item is 'its place in that frame';
comment on column both_sides.server_response is 'for a request: frame number of the response there';
comment on column both_sides.server_id is 'for a request: its id there';
comment on column both_sides.server_outcome is 'for a request: its outcome there';
comment on column both_sides.server_status is 'for a request over HTTP: the status of the HTTP response there';
comment on column both_sides.server_is_cancelled is 'for a request: whether it was cancelled there';
comment on column both_sides.is_pair is 'whether both captures have it';
comment on column both_sides.is_certain is 'whether it is certain which message this is on the other side, or that the other side lacks it: false if one side has more messages equal to it, or if a capture has losses that could explain it';
comment on column both_sides.is_request_covered is 'whether both captures cover the time when it was sent; true if both have it';
comment on column both_sides.is_response_covered is 'for a request: whether both captures cover the time of the response; true if both have it, or neither';
comment on column both_sides.is_request_changed is 'whether its params differ; NULL if it is not in both, or they cannot be compared. The order of members, the way a number is written, progress tokens, ids that other messages refer to, and trace context do not count';
comment on column both_sides.is_response_changed is 'the same for the result or error';
comment on column both_sides.is_id_changed is 'whether its ids differ, as behind a bridge; NULL if it has none on a side';
comment on column both_sides.is_order_changed is 'whether its receiver saw it before a message that its sender sent earlier';
comment on column both_sides.request_hop_ms is 'time from one capture to the other; NULL if the pair is not certain or times are not exact';
comment on column both_sides.response_hop_ms is 'for a request: the same for its response; also NULL if that was changed';
comment on column both_sides.offset_ms is 'what to add to a time in the capture nearer to the client to get the same moment in the other capture, both in ms since the capture opened: the middle of the range that the messages allow';
comment on column both_sides.offset_error_ms is 'by how much that may be wrong; NULL if messages went only one way';
