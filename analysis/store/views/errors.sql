-- one row per error: a request answered with an error, a failed HTTP exchange, or an error response that matches no request
--
-- An error that answers a cancelled call is included, and `is_cancelled` marks it: its client had given up, and no figure
-- counts it. `where not is_cancelled`, as in the example, selects the errors that `stats` and `report` count. Error shares
-- (`latency`, `error_rates`, the report) cover only calls that were answered in time or failed, so they also leave out
-- errors that match no request.
--
--     select meaning, code, count(*) as errors, any_value(text) as example
--     from errors where not is_cancelled group by all order by errors desc
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
        null, null, 'error', code, message ->> '$.error.message', null, false, null
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
comment on view errors is 'one row per error: a request answered with an error, a failed HTTP exchange, or an error response that matches no request';
comment on column errors.time is 'when the request was sent, UTC; for an error that matches no request, when it came';
comment on column errors.server is 'name of the captured server';
comment on column errors.capture is 'id of the capture';
comment on column errors.session is 'number of the session in the capture, from 1';
comment on column errors.at_ms is 'the same time, in ms since the capture opened';
comment on column errors.request is 'frame number of the request; NULL if the error matches none';
comment on column errors.response is 'frame number of the response; NULL if none came';
comment on column errors.asked_by is 'sender of the request: client or server';
comment on column errors.answered_by is 'sender of the error: server or client';
comment on column errors.method is 'method of the request';
comment on column errors.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column errors.outcome is 'tool_error (a result with isError), error (of JSON-RPC), or failed (the HTTP exchange)';
comment on column errors.code is 'code of the error; NULL for tool errors';
comment on column errors.meaning is 'meaning of the code in JSON-RPC or MCP; of a failed HTTP exchange, its status';
comment on column errors.failed_by is 'of a failed HTTP exchange: who failed, as far as HTTP shows: server, gateway, network or client; NULL for other errors';
comment on column errors.text is 'message of the error, the first text that the tool returned, or what an HTTP response says instead of an answer, cut at 300 characters; NULL if the error matches no request and frames.message is NULL. Untrusted text';
comment on column errors.latency_ms is 'how long the response took; NULL if there is none';
comment on column errors.is_cancelled is 'whether the call had been cancelled before: the error came late, often as a reaction to that, and neither stats nor latency and error_rates count it';
