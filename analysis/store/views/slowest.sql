-- one row per response, the slowest first
--
-- Limit it to the rows you need: `select * from slowest limit 20`. Late responses are included, with `late_ms`; the
-- figures of `latency` leave them out.
--
--     select latency_ms, late_ms, method, name, capture, request from slowest limit 10
create view slowest as
select
    round(latency_ms, 3) as latency_ms,
    method, exchanges.name as name, outcome,
    round(server_ms, 3) as server_ms,
    round(waiting_ms, 3) as waiting_ms,
    round(stall_ms, 3) as stall_ms,
    captures.server as server, session, request, response, capture, asked_by,
    exchanges.time as time,
    request_bytes, response_bytes, progress, cancelled_ns is not null as is_cancelled,
    case when exchanges.ended_ns >= cancelled_ns and coalesce(code, 0) <> {request_cancelled} then round((exchanges.ended_ns - cancelled_ns) / 1e6, 3) end as late_ms
from exchanges join captures using (capture)
where latency_ms is not null
order by exchanges.latency_ms desc;
comment on view slowest is 'one row per response, the slowest first';
comment on column slowest.latency_ms is 'from when the request was handed on to its response, however late that was';
comment on column slowest.method is 'method of the request';
comment on column slowest.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column slowest.outcome is 'the kind of response: result, tool_error, error, input_required or task';
comment on column slowest.server_ms is 'the latency without the time in which the responding side waited for the other side';
comment on column slowest.waiting_ms is 'the time in which the responding side waited for a response to its own requests';
comment on column slowest.stall_ms is 'how long the request waited before that because its receiver did not read it; not part of the latency';
comment on column slowest.server is 'name of the captured server';
comment on column slowest.session is 'number of the session in the capture, from 1';
comment on column slowest.request is 'frame number of the request';
comment on column slowest.response is 'frame number of the response';
comment on column slowest.capture is 'id of the capture';
comment on column slowest.asked_by is 'sender of the request: client or server';
comment on column slowest.time is 'when the request was sent, UTC';
comment on column slowest.request_bytes is 'size of the frame of the request';
comment on column slowest.response_bytes is 'size of the frame of the response';
comment on column slowest.progress is 'number of progress notifications for it';
comment on column slowest.is_cancelled is 'whether the request had been cancelled before the response';
comment on column slowest.late_ms is 'how long after the cancellation the response came; NULL if it was not cancelled, or the response is the error {request_cancelled}, which acknowledges that';
