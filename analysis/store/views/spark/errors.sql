-- JSON in a text is read by `get_json_object`.
create view errors as
with failures as (
    select
        capture, session, time, started_ns as t_ns, request, response, asked_by, method, name, outcome, code,
        error as text, latency_ms, cancelled_ns is not null and outcome <> 'failed' as is_cancelled, exchange
    from exchanges
    where outcome in ('tool_error', 'error', 'failed')
    union all
    select
        capture, session, time, t_ns, null, seq, case dir when 's2c' then 'client' else 'server' end,
        null, null, 'error', code, get_json_object(message, '$.error.message'), null, false, null
    from frames
    where kind = 'error' and request is null
),
http as (
    select capture, exchange, max(status) as status, bool_or(by_proxy) as by_proxy, max(failed_by) as failed_by, max(said) as said
    from http_exchanges
    group by all
)
select
    failures.time as time,
    captures.server as server, failures.capture as capture, session,
    round(t_ns / 1e6, 3) as at_ms,
    request, response, asked_by,
    case asked_by when 'client' then 'server' else 'client' end as answered_by,
    method, failures.name as name, outcome, code,
    case
        when outcome = 'tool_error' then 'tool error'
        when outcome = 'failed' and by_proxy then 'server not reached'
        when outcome = 'failed' and status is null then 'no HTTP response'
        when outcome = 'failed' and status < 300 then 'no answer in the HTTP response'
        when outcome = 'failed' then 'HTTP status ' || status
        {error_names}
        when code is null then 'error without a code'
        else 'application-defined'
    end as meaning,
    case when outcome = 'failed' then coalesce(failed_by, 'server') end as failed_by,
    coalesce(text, said) as text, round(latency_ms, 3) as latency_ms, is_cancelled
from failures join captures using (capture)
    left join http on http.capture = failures.capture and http.exchange = failures.exchange
order by failures.time nulls last, failures.capture, coalesce(request, response);
