-- one row per server, asking side, method, name and minute in which calls began: how many of them were errors
--
-- What an error is, and of what it is a share, is as in `latency`. Minutes without a call have no row. For another
-- length of time, group by `date_trunc('hour', minute)` and divide the sums, not the shares.
--
--     select date_trunc('hour', minute) as hour, server, sum(errors) / sum(decided) as error_share
--     from error_rates group by all order by hour, server
create view error_rates as
select
    date_trunc('minute', time)::timestamp as minute, server, asked_by, method, name,
    count(*) as calls,
    count(*) filter (is_decided) as decided,
    count(*) filter (is_error) as errors,
    round(count(*) filter (is_error) / nullif(count(*) filter (is_decided), 0), 4) as error_share
from calls
group by all
order by minute, server, asked_by, method, name;
comment on view error_rates is 'one row per server, asking side, method, name and minute in which calls began: how many of them were errors';
comment on column error_rates.minute is 'the minute, UTC; NULL where the capture does not know the time of day';
comment on column error_rates.server is 'name of the captured server';
comment on column error_rates.asked_by is 'who asked: client or server';
comment on column error_rates.method is 'what was asked for';
comment on column error_rates.name is 'the tool, prompt or resource; NULL where the method has none';
comment on column error_rates.calls is 'requests sent in this minute, whatever became of them';
comment on column error_rates.decided is 'those with a final answer, or whose HTTP exchange failed, and that were not cancelled';
comment on column error_rates.errors is 'those of them that were an error of a tool, an error of JSON-RPC or a failed exchange';
comment on column error_rates.error_share is 'errors / decided, from 0 to 1; NULL where none was decided';
