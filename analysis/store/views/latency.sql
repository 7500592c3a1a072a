-- one row per server, sender, method and name: how long its responses took, and the outcomes of its calls
--
-- Percentiles cover only responses to calls that were not cancelled: results, tool errors and JSON-RPC errors. A call
-- without a response has no latency, so a server that hangs looks fast here: check `abandoned` and `unanswered` as well.
-- An interim result (2026-07-28) and a response that only starts a task end an exchange, but not the call; they are
-- counted as `interim` and not timed.
--
--     select name, calls, error_share, p50_ms, p95_ms, max_ms from latency where method = 'tools/call'
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
        quantile_cont(latency_ms, [0.5, 0.9, 0.95, 0.99]) as took,
        max(latency_ms) as longest_ms,
        sum(open_ms) as total_ms,
        bool_or(has_waited) as has_waited,
        quantile_cont(server_ms, [0.5, 0.95]) as worked
    from calls
    group by all
)
select
    server, asked_by, method, name, calls, answered, errors,
    round(errors / nullif(decided, 0), 4) as error_share,
    round(took[1], 3) as p50_ms,
    round(took[2], 3) as p90_ms,
    round(took[3], 3) as p95_ms,
    round(took[4], 3) as p99_ms,
    round(longest_ms, 3) as max_ms,
    coalesce(round(total_ms, 3), 0) as total_ms,
    case when has_waited then round(worked[1], 3) end as server_p50_ms,
    case when has_waited then round(worked[2], 3) end as server_p95_ms,
    cancelled, abandoned, unanswered, failed, not_recorded, interim
from summed
order by calls desc, server nulls last, asked_by, method, name nulls last;
comment on view latency is 'one row per server, sender, method and name: how long its responses took, and the outcomes of its calls';
comment on column latency.server is 'name of the captured server, given by the user or guessed from the command or URL';
comment on column latency.asked_by is 'sender of the request: client or server';
comment on column latency.method is 'method of the request, such as tools/call';
comment on column latency.name is 'the tool, prompt or resource that the calls name; NULL if the method has none';
comment on column latency.calls is 'requests, whatever their outcome: answered + cancelled + unanswered + failed + not_recorded + interim';
comment on column latency.answered is 'calls with a final response (a result or an error) that were not cancelled; the percentiles cover these';
comment on column latency.errors is 'calls answered with an error (of a tool or JSON-RPC), and calls whose HTTP exchange failed';
comment on column latency.error_share is 'errors / (answered + failed), from 0 to 1; NULL if there are none';
comment on column latency.p50_ms is 'median latency of the responses: half were faster';
comment on column latency.p90_ms is 'latency that 90 % of the responses did not exceed; like the others, interpolated between neighbours';
comment on column latency.p95_ms is 'latency that 95 % of the responses did not exceed';
comment on column latency.p99_ms is 'latency that 99 % of the responses did not exceed; with fewer than 100 responses, close to the maximum';
comment on column latency.max_ms is 'latency of the slowest response';
comment on column latency.total_ms is 'sum of calls.open_ms: how long all calls were open; unanswered calls count until they were cancelled or their session ended, and overlapping calls count separately. 0 for requests that only listen, such as subscriptions/listen';
comment on column latency.server_p50_ms is 'median without the time in which the responding side waited for the other side; NULL if it never did';
comment on column latency.server_p95_ms is 'the same for 95 %; NULL if the responding side never waited';
comment on column latency.cancelled is 'calls that were cancelled, whether answered afterwards or not';
comment on column latency.abandoned is 'cancelled calls that were abandoned: cancelled with a reason that mentions a time-out, or after 5 s or more; or, up to 2025-11-25, their client closed the HTTP exchange';
comment on column latency.unanswered is 'calls without a response: no percentile includes them';
comment on column latency.failed is 'calls whose HTTP exchange failed before a response could come';
comment on column latency.not_recorded is 'calls whose response may be in a body or in records that the capture lacks: no percentile includes them';
comment on column latency.interim is 'calls that ended in an interim result or a response that only starts a task: no percentile includes them';
