-- one row per request, in the terms in which the other views count: whose it was, how it stands, and how long it took
--
-- `latency`, `error_rates` and the like are sums of this. Group it by what they do not: by client, by day, by capture.
--
--     select client, server, count(*) as calls, median(answer_ms), avg(is_error::integer) filter (is_decided) as errors
--     from calls where method = 'tools/call' group by all
create view calls as
with standing as (
    select
        *,
        case
            when cancelled_ns is not null or outcome = 'cancelled' then 'cancelled'
            when outcome in ('result', 'tool_error', 'error') then 'answered'
            when outcome in ('input_required', 'task') then 'interim'
            else outcome
        end as state
    from exchanges
),
http as (
    select capture, exchange, max(ended_ns) as ended_ns from http_exchanges group by all
)
select
    standing.time as time,
    captures.name as server, sessions.client as client, standing.capture as capture, standing.session as session,
    request, response, asked_by, method, standing.name as name, outcome, standing.state as state,
    standing.state in ('answered', 'failed') as is_decided,
    standing.state in ('answered', 'failed') and outcome <> 'result' as is_error,
    is_abandoned,
    code,
    case when standing.state = 'answered' then latency_ms end as answer_ms,
    case when standing.state = 'answered' then server_ms end as server_ms,
    started_ns,
    greatest(
        started_ns,
        coalesce(
            least(standing.ended_ns, cancelled_ns),
            case
                when standing.exchange is null then captures.ended_ns
                when standing.state = 'failed' then http.ended_ns
                -- Its answer may still have come on another stream.
                when http.ended_ns is not null then greatest(http.ended_ns, last_ns)
            end,
            duration_ns
        )
    ) as until_ns,
    case when method <> 'subscriptions/listen' then (until_ns - started_ns) / 1e6 end as open_ms,
    waiting_ms,
    case when is_abandoned then round(greatest(0, cancelled_ns - started_ns) / 1e6, 3) end as abandoned_ms,
    cancel_reason,
    case when standing.ended_ns >= cancelled_ns then round((standing.ended_ns - cancelled_ns) / 1e6, 3) end as late_ms,
    coalesce(waiting_ms > 0, false) as has_waited,
    request_bytes, response_bytes, probable_answer, probable_answer_id
from standing join captures using (capture)
    left join sessions on sessions.capture = standing.capture and sessions.session = standing.session
    left join http on http.capture = standing.capture and http.exchange = standing.exchange;
comment on view calls is 'one row per request, in the terms in which the other views count: whose it was, how it stands, and how long it took';
comment on column calls.time is 'when it was sent, UTC';
comment on column calls.server is 'name of the captured server, given by the user or guessed from the command or URL';
comment on column calls.client is 'what the client calls itself. Foreign text';
comment on column calls.capture is 'id of the capture';
comment on column calls.session is 'number of the session in the capture, from 1';
comment on column calls.request is 'number of the frame of the request';
comment on column calls.response is 'number of the frame of the answer; NULL without one';
comment on column calls.asked_by is 'who asked: client or server';
comment on column calls.method is 'what was asked for, such as tools/call';
comment on column calls.name is 'the tool, prompt or resource that it names; NULL where the method has none';
comment on column calls.outcome is 'what became of it, as in exchanges';
comment on column calls.state is 'cancelled (answered afterwards or not), answered (a result or an error), interim (an interim result, or the stub of a task), failed (its HTTP exchange), or unanswered';
comment on column calls.is_decided is 'whether it was answered or failed: of these is the share of errors';
comment on column calls.is_error is 'whether it was answered with an error, by a tool or by JSON-RPC, or failed';
comment on column calls.is_abandoned is 'whether whoever asked gave it up: cancelled for a reason that says time-out, or after 5 s or more';
comment on column calls.code is 'code of the error; NULL of errors of tools';
comment on column calls.answer_ms is 'how long the answer took; NULL where state is not answered';
comment on column calls.server_ms is 'the same without the time in which the answering side itself waited for the other one';
comment on column calls.started_ns is 'when it was handed on, in ns since the capture opened';
comment on column calls.until_ns is 'when it stopped being open: its answer, its cancellation or the failure of its HTTP exchange; without any of these the end of the server on stdio, and over HTTP the end of its exchange or the last message of its session, whichever is later; while the capture is being recorded, the time at which it was read';
comment on column calls.open_ms is 'from started_ns to until_ns; NULL for subscriptions/listen, which is open as long as the client listens';
comment on column calls.waiting_ms is 'the part of the latency in which the answering side itself waited for the other one; NULL without an answer';
comment on column calls.abandoned_ms is 'how long it had waited when it was abandoned; NULL where it was not';
comment on column calls.cancel_reason is 'the reason that its cancellation gave; NULL where it gave none, or was not cancelled. Foreign text';
comment on column calls.late_ms is 'how long after its cancellation an answer came all the same; NULL where none did';
comment on column calls.has_waited is 'whether there was such time';
comment on column calls.request_bytes is 'size of the frame of the request';
comment on column calls.response_bytes is 'size of the frame of the answer; NULL without one';
comment on column calls.probable_answer is 'of a call without an answer: number of the frame of an answer that fits no request and was probably meant for this call; NULL where there is none. A guess';
comment on column calls.probable_answer_id is 'the id of that answer as JSON writes it; NULL where it has none. Foreign text';
