-- one row per request or notification, in chronological order, with its outcome
--
-- A response is in the row of its request. Invalid messages, and responses that match no request, are in `frames`.
--
--     select at_ms, sender, method, name, outcome, latency_ms, in_flight from timeline limit 20
create view timeline as
with said as (
    select
        capture, session, time, started_ns as t_ns, 'request' as kind, asked_by as sender, method, name, outcome,
        latency_ms, in_flight, request as frame, item, response, request_bytes as size
    from exchanges
    union all
    select
        capture, session, time, t_ns, 'notification', case dir when 'c2s' then 'client' else 'server' end, method, name,
        null, null, null, seq, null, null, size
    from frames
    where kind = 'notification'
),
elsewhere as (
    select
        case when is_client then client_capture else server_capture end as capture,
        case when is_client then client_frame else server_frame end as frame,
        case when is_client then client_item else server_item end as item,
        case when is_client then server_capture else client_capture end as other_capture,
        case when is_client then server_frame else client_frame end as other_frame
    from both_sides cross join (select true as is_client union all select false) as directions
    where is_pair and is_certain
),
counterparts as (
    select *, row_number() over (partition by capture, frame, item order by other_capture) as number from elsewhere
)
select
    said.time as time,
    round(t_ns / 1e6, 3) as at_ms,
    captures.server as server, said.capture as capture, session, kind, sender, method, said.name as name, outcome,
    round(latency_ms, 3) as latency_ms,
    in_flight, said.frame as frame, response, size, other_capture, other_frame
from said join captures on captures.capture = said.capture
    left join counterparts
        on counterparts.capture = said.capture and counterparts.frame = said.frame and number = 1
            and coalesce(counterparts.item, -1) = coalesce(said.item, -1)
order by said.time nulls last, said.capture, said.frame, said.item nulls last;
comment on view timeline is 'one row per request or notification, in chronological order, with its outcome';
comment on column timeline.time is 'when it was sent, UTC';
comment on column timeline.at_ms is 'when, in ms since the capture opened; for a request, when it was handed on';
comment on column timeline.server is 'name of the captured server';
comment on column timeline.capture is 'id of the capture';
comment on column timeline.session is 'number of the session in the capture, from 1';
comment on column timeline.kind is 'request or notification';
comment on column timeline.sender is 'its sender: client or server';
comment on column timeline.method is 'its method';
comment on column timeline.name is 'the tool, prompt or resource that it is about; NULL if it names none';
comment on column timeline.outcome is 'for a request: its outcome, as in exchanges';
comment on column timeline.latency_ms is 'for a request: how long the response took; NULL if there is none';
comment on column timeline.in_flight is 'for a request: how many requests of its session were open when it was sent, including itself';
comment on column timeline.frame is 'number of its frame';
comment on column timeline.response is 'frame number of the response';
comment on column timeline.size is 'size of its frame in bytes';
comment on column timeline.other_capture is 'id of another capture that has the same request or notification, taken at another place on its way; NULL if no queried capture certainly has it; see both_sides';
comment on column timeline.other_frame is 'number of its frame there';
