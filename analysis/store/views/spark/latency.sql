-- Several percentiles of one pass are an array, whose first item has the number 0.
create view latency as
with summed as (
    select
        server, asked_by, method, name,
        count(*) as calls,
        count(*) filter (where state = 'answered') as answered,
        count(*) filter (where is_decided) as decided,
        count(*) filter (where is_error) as errors,
        count(*) filter (where state = 'cancelled') as cancelled,
        count(*) filter (where is_abandoned) as abandoned,
        count(*) filter (where state = 'unanswered') as unanswered,
        count(*) filter (where state = 'failed') as failed,
        count(*) filter (where state = 'not_recorded') as not_recorded,
        count(*) filter (where state = 'interim') as interim,
        percentile(latency_ms, array(0.5, 0.9, 0.95, 0.99)) as took,
        max(latency_ms) as longest_ms,
        sum(open_ms) as total_ms,
        bool_or(has_waited) as has_waited,
        percentile(server_ms, array(0.5, 0.95)) as worked
    from calls
    group by all
)
select
    server, asked_by, method, name, calls, answered, errors,
    round(errors / nullif(decided, 0), 4) as error_share,
    round(took[0], 3) as p50_ms,
    round(took[1], 3) as p90_ms,
    round(took[2], 3) as p95_ms,
    round(took[3], 3) as p99_ms,
    round(longest_ms, 3) as max_ms,
    coalesce(round(total_ms, 3), 0) as total_ms,
    case when has_waited then round(worked[0], 3) end as server_p50_ms,
    case when has_waited then round(worked[1], 3) end as server_p95_ms,
    cancelled, abandoned, unanswered, failed, not_recorded, interim
from summed
order by calls desc, server nulls last, asked_by, method, name nulls last;
