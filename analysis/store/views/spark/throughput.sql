-- Integers are divided by `div`, and `date_trunc` would turn a time without a zone into one of the session's zone.
create view throughput as
with counted as (
    select
        capture, t_ns div 1000000000 as at_s,
        count(*) filter (where dir = 'c2s') as frames_to_server,
        count(*) filter (where dir = 's2c') as frames_to_client,
        coalesce(sum(size) filter (where dir = 'c2s'), 0)::bigint as bytes_to_server,
        coalesce(sum(size) filter (where dir = 's2c'), 0)::bigint as bytes_to_client
    from frames
    group by all
)
select
    captures.opened - make_dt_interval(0, 0, 0, extract(second from captures.opened) % 1)
        + make_dt_interval(0, 0, 0, at_s) as second,
    captures.server as server, capture, at_s,
    frames_to_server, frames_to_client,
    frames_to_server + frames_to_client as frames,
    bytes_to_server, bytes_to_client,
    bytes_to_server + bytes_to_client as bytes
from counted join captures using (capture)
order by second nulls last, capture, at_s;
