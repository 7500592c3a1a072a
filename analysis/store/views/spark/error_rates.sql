-- `date_trunc` of Spark turns a time without a zone into one of the session's zone.
create view error_rates as
select
    time - make_dt_interval(0, 0, 0, extract(second from time)) as minute, server, asked_by, method, name,
    count(*) as calls,
    count(*) filter (where is_decided) as decided,
    count(*) filter (where is_error) as errors,
    round(count(*) filter (where is_error) / nullif(count(*) filter (where is_decided), 0), 4) as error_share
from calls
group by all
order by minute nulls last, server nulls last, asked_by, method, name nulls last;
