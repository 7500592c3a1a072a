-- There is no `bar`: it is drawn from eighths of a block.
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
    concat(
        repeat('\u2588', int(answers / max(answers) over same * 160) div 8),
        rtrim(substring(' \u258f\u258e\u258d\u258c\u258b\u258a\u2589', int(answers / max(answers) over same * 160) % 8 + 1, 1))
    ) as bar
from counted
window same as (partition by server, asked_by, method, name)
order by server nulls last, asked_by, method, name nulls last, bucket;
