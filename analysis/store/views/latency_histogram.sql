-- one row per server, sender, method, name and bucket: how many responses took that long
--
-- Buckets double: 0.5 to 1 ms, 1 to 2 ms, 2 to 4 ms; the first, up to 2^-9 ms, begins at 0. Empty ones have no row.
-- The view counts the responses that the percentiles of `latency` cover.
--
--     select from_ms, to_ms, answers, bar from latency_histogram where method = 'tools/list'
create view latency_histogram as
with answers as (
    select
        server, asked_by, method, name,
        case when latency_ms < 0.001953125 then -10 else floor(log2(latency_ms))::integer end as bucket
    from calls
    where latency_ms is not null
),
counted as (
    select server, asked_by, method, name, bucket, count(*) as answers
    from answers
    group by all
)
select
    server, asked_by, method, name, bucket,
    case when bucket = -10 then 0 else power(2, bucket) end as from_ms,
    power(2, bucket + 1) as to_ms,
    answers,
    round(answers / sum(answers) over same, 4) as share,
    rtrim(bar(answers, 0, max(answers) over same, 20)) as bar
from counted
window same as (partition by server, asked_by, method, name)
order by server nulls last, asked_by, method, name nulls last, bucket;
comment on view latency_histogram is 'one row per server, sender, method, name and bucket: how many responses took that long';
comment on column latency_histogram.server is 'name of the captured server';
comment on column latency_histogram.asked_by is 'sender of the request: client or server';
comment on column latency_histogram.method is 'method of the request';
comment on column latency_histogram.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column latency_histogram.bucket is 'number of the bucket: latencies from 2^bucket to 2^(bucket+1) ms; -10 also holds all lower latencies';
comment on column latency_histogram.from_ms is 'where the bucket begins';
comment on column latency_histogram.to_ms is 'where the next bucket begins';
comment on column latency_histogram.answers is 'final responses that took this long, to calls that were not cancelled';
comment on column latency_histogram.share is 'share of all responses with this server, sender, method and name, from 0 to 1';
comment on column latency_histogram.bar is 'the share as a bar: 20 blocks for the fullest bucket';
