-- one row per server, sender, method, name and minute of the call: how many calls were errors
--
-- Errors and shares are defined as in `latency`. Minutes without a call have no row. For longer periods, group by
-- `date_trunc('hour', minute)` and divide the sums; do not average the shares.
--
--     select date_trunc('hour', minute) as hour, server, sum(errors) / sum(decided) as error_share
--     from error_rates group by all order by hour, server
create view error_rates as
select
    date_trunc('minute', time)::timestamp as minute, server, asked_by, method, name,
    count(*) as calls,
    count(*) filter (where is_decided) as decided,
    count(*) filter (where is_error) as errors,
    round(count(*) filter (where is_error) / nullif(count(*) filter (where is_decided), 0), 4) as error_share
from calls
group by all
order by minute nulls last, server nulls last, asked_by, method, name nulls last;
comment on view error_rates is 'one row per server, sender, method, name and minute of the call: how many calls were errors';
comment on column error_rates.minute is 'the minute, UTC; NULL if the capture has no wall clock';
comment on column error_rates.server is 'name of the captured server';
comment on column error_rates.asked_by is 'sender of the request: client or server';
comment on column error_rates.method is 'method of the request';
comment on column error_rates.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column error_rates.calls is 'requests sent in this minute, whatever their outcome';
comment on column error_rates.decided is 'calls that were not cancelled, and either got a final response or failed over HTTP';
comment on column error_rates.errors is 'decided calls that ended in a tool error, a JSON-RPC error or a failed HTTP exchange';
comment on column error_rates.error_share is 'errors / decided, from 0 to 1; NULL if none was decided';
