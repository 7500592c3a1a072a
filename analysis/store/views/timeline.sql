-- one row per request or notification, in the order of time: what was said, and what became of it
--
-- Answers stand in the row of their request. What is no message, and answers that fit no request, are in `frames`.
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
    captures.name as server, capture, session, kind, sender, method, said.name as name, outcome,
    round(latency_ms, 3) as latency_ms,
    in_flight, frame, response, size
from said join captures using (capture)
order by said.time, capture, frame, item;
comment on view timeline is 'one row per request or notification, in the order of time: what was said, and what became of it';
comment on column timeline.time is 'when it was sent, UTC';
comment on column timeline.at_ms is 'when, in ms since the capture opened; of a request, when it was handed on';
comment on column timeline.server is 'name of the captured server';
comment on column timeline.capture is 'id of the capture';
comment on column timeline.session is 'number of the session in the capture, from 1';
comment on column timeline.kind is 'request or notification';
comment on column timeline.sender is 'who said it: client or server';
comment on column timeline.method is 'its method';
comment on column timeline.name is 'the tool, prompt or resource that it is about; NULL where it names none';
comment on column timeline.outcome is 'of a request: what became of it, as in exchanges';
comment on column timeline.latency_ms is 'of a request: how long the answer took; NULL without one';
comment on column timeline.in_flight is 'of a request: how many of its session waited for an answer when it was sent, itself included';
comment on column timeline.frame is 'number of its frame';
comment on column timeline.response is 'number of the frame of the answer';
comment on column timeline.size is 'size of its frame in bytes';
