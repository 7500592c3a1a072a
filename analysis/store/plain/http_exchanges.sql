-- The rows of HTTP exchanges that need no more than their last record: `$1` to `$12` are columns of numbers as JSON, in
-- the order of `exchanges.NUMBERS`; -1 stands for none.

insert into made.http_exchanges by name
select
    getvariable('id') as capture, exchange, conn, peers.peer, method, target, status, started_ns,
    nullif(head_ns, -1) as head_ns, nullif(first_byte_ns, -1) as first_byte_ns, ended_ns, clock(started_ns) as time,
    ended_by, request_bytes, response_bytes, content_type, session_id, revision,
    if(has_frames = 1, 1, null) as session, is_stream, events, by_proxy
from (
    select
        unnest(from_json($1, '["BIGINT"]')) as word, unnest(from_json($2, '["BIGINT"]')) as of_peer,
        unnest(from_json($3, '["BIGINT"]')) as exchange, unnest(from_json($4, '["BIGINT"]')) as has_frames,
        unnest(from_json($5, '["BIGINT"]')) as conn, unnest(from_json($6, '["BIGINT"]')) as started_ns,
        unnest(from_json($7, '["BIGINT"]')) as head_ns, unnest(from_json($8, '["BIGINT"]')) as first_byte_ns,
        unnest(from_json($9, '["BIGINT"]')) as ended_ns, unnest(from_json($10, '["BIGINT"]')) as request_bytes,
        unnest(from_json($11, '["BIGINT"]')) as response_bytes, unnest(from_json($12, '["BIGINT"]')) as events
) as told
join words using (word)
join peers on peers.number = told.of_peer;
