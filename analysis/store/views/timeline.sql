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
)
select
    said.time as time,
    round(t_ns / 1e6, 3) as at_ms,
    captures.server as server, capture, session, kind, sender, method, said.name as name, outcome,
    round(latency_ms, 3) as latency_ms,
    in_flight, frame, response, size
from said join captures using (capture)
order by said.time nulls last, capture, frame, item nulls last;
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
