-- one row per HTTP response that was an event stream
--
--     select ended_by, count(*) as streams, avg(events), max(open_ms) from sse_streams group by all
create view sse_streams as
with events as (
    select
        capture, exchange,
        count(*) as events_with_a_message,
        sum(size)::bigint as message_bytes,
        min(t_ns) as first_ns,
        max(t_ns) as last_ns
    from frames
    where unit = 'sse_event' and exchange is not null
    group by all
)
select
    http_exchanges.time as time, captures.server as server, capture, http_exchanges.session as session, exchange,
    http_exchanges.method as method, status,
    round((head_ns - started_ns) / 1e6, 3) as head_ms,
    round((first_ns - started_ns) / 1e6, 3) as first_event_ms,
    round((last_ns - started_ns) / 1e6, 3) as last_event_ms,
    round((coalesce(http_exchanges.ended_ns, captures.duration_ns) - started_ns) / 1e6, 3) as open_ms,
    http_exchanges.events as events,
    coalesce(events_with_a_message, 0) as messages,
    coalesce(message_bytes, 0) as message_bytes,
    response_bytes, ended_by, resumes
from http_exchanges join captures using (capture) left join events using (capture, exchange)
where is_stream
order by http_exchanges.time nulls last, capture, exchange;
comment on view sse_streams is 'one row per HTTP response that was an event stream';
comment on column sse_streams.time is 'when its request came, UTC';
comment on column sse_streams.server is 'name of the captured server';
comment on column sse_streams.capture is 'id of the capture';
comment on column sse_streams.session is 'number of the session that its messages belong to; NULL if there are none';
comment on column sse_streams.exchange is 'number of the HTTP exchange in the capture';
comment on column sse_streams.method is 'GET for a stream that the client opened to listen, POST for a stream that carries responses';
comment on column sse_streams.status is 'status of the response';
comment on column sse_streams.head_ms is 'from the request head to the response head';
comment on column sse_streams.first_event_ms is 'from the request head to the first event with a message; NULL if there is none';
comment on column sse_streams.last_event_ms is 'from the request head to the last event with a message';
comment on column sse_streams.open_ms is 'from the request head to the end of the stream, or of the capture if it was still open then';
comment on column sse_streams.events is 'events in it, including those without a message; NULL while it is open';
comment on column sse_streams.messages is 'events with an MCP message';
comment on column sse_streams.message_bytes is 'bytes of these messages';
comment on column sse_streams.response_bytes is 'bytes of the stream; NULL while it is open';
comment on column sse_streams.ended_by is 'who ended it: complete (the server ended it normally), client, server, proxy or error; NULL while it is open';
comment on column sse_streams.resumes is 'number of the exchange whose stream it resumes; NULL for a new stream';
