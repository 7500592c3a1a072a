-- one row per capture and second with traffic: how many frames and bytes, in each direction
--
-- Seconds without traffic have no row. For minutes, sum by `date_trunc('minute', second)`.
--
--     select date_trunc('minute', second) as minute, sum(frames), sum(bytes)
--     from throughput group by all order by minute
create view throughput as
with counted as (
    select
        capture, t_ns // 1000000000 as at_s,
        count(*) filter (where dir = 'c2s') as frames_to_server,
        count(*) filter (where dir = 's2c') as frames_to_client,
        coalesce(sum(size) filter (where dir = 'c2s'), 0)::bigint as bytes_to_server,
        coalesce(sum(size) filter (where dir = 's2c'), 0)::bigint as bytes_to_client
    from frames
    group by all
)
select
    date_trunc('second', captures.opened)::timestamp + to_seconds(at_s) as second,
    captures.server as server, capture, at_s,
    frames_to_server, frames_to_client,
    frames_to_server + frames_to_client as frames,
    bytes_to_server, bytes_to_client,
    bytes_to_server + bytes_to_client as bytes
from counted join captures using (capture)
order by second nulls last, capture, at_s;
comment on view throughput is 'one row per capture and second with traffic: how many frames and bytes, in each direction';
comment on column throughput.second is 'the second, UTC, counted from the second in which the capture opened; NULL if the capture has no wall clock';
comment on column throughput.server is 'name of the captured server';
comment on column throughput.capture is 'id of the capture';
comment on column throughput.at_s is 'seconds since the capture opened';
comment on column throughput.frames_to_server is 'frames from the client to the server';
comment on column throughput.frames_to_client is 'frames from the server to the client';
comment on column throughput.frames is 'frames in both directions';
comment on column throughput.bytes_to_server is 'bytes of the frames to the server, without delimiters';
comment on column throughput.bytes_to_client is 'bytes of the frames to the client';
comment on column throughput.bytes is 'bytes of the frames in both directions';
