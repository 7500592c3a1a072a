-- one row per request, as the other views count it: who sent it, its state, and how long it took
--
-- `latency`, `error_rates` and other views aggregate this one. Query it to group by something else: client, day, capture.
--
--     select client, server, count(*) as calls, median(latency_ms), avg(is_error::integer) filter (is_decided) as errors
--     from calls where method = 'tools/call' group by all
create view calls as
with standing as (
    select
        *,
        case
            when outcome in ('failed', 'unanswered', 'not_recorded') then outcome
            when cancelled_ns is not null or outcome = 'cancelled' then 'cancelled'
            when outcome in ('result', 'tool_error', 'error') then 'answered'
            when outcome in ('input_required', 'task') then 'interim'
        end as state
    from exchanges
),
http as (
    select capture, exchange, max(ended_ns) as ended_ns from http_exchanges group by all
)
select
    standing.time as time,
    captures.server as server, sessions.client_name as client, standing.capture as capture, standing.session as session,
    request, response, asked_by, method, extension, standing.name as name, outcome, standing.state as state,
    standing.state in ('answered', 'failed') as is_decided,
    standing.state in ('answered', 'failed') and outcome <> 'result' as is_error,
    is_abandoned,
    code,
    case when standing.state = 'answered' and method not in ({endless_methods}) then standing.latency_ms end as latency_ms,
    case when standing.state = 'answered' then server_ms end as server_ms,
    started_ns,
    greatest(
        started_ns,
        coalesce(
            case
                when standing.state = 'unanswered' and standing.exchange is null then least(captures.ended_ns, cancelled_ns)
                else least(standing.ended_ns, cancelled_ns, failed_ns)
            end,
            case
                when standing.exchange is null then captures.ended_ns
                -- Its response may still have come on another stream.
                when http.ended_ns is not null then greatest(http.ended_ns, last_ns)
            end,
            duration_ns
        )
    ) as until_ns,
    case when method not in ({endless_methods}) then (until_ns - started_ns) / 1e6 end as open_ms,
    waiting_ms,
    case when is_abandoned then round(greatest(0, cancelled_ns - started_ns) / 1e6, 3) end as abandoned_ms,
    cancel_reason,
    case when standing.ended_ns >= cancelled_ns and coalesce(code, 0) <> {request_cancelled} then round((standing.ended_ns - cancelled_ns) / 1e6, 3) end as late_ms,
    coalesce(waiting_ms > 0, false) as has_waited,
    request_bytes, response_bytes, probable_answer, probable_answer_id, redirects,
    id,
    least(standing.ended_ns, cancelled_ns, failed_ns) as wait_ended_ns,
    known_client, turn_id, client_call_id, client_session, trace_id
from standing join captures using (capture)
    left join sessions on sessions.capture = standing.capture and sessions.session = standing.session
    left join http on http.capture = standing.capture and http.exchange = standing.exchange;
comment on view calls is 'one row per request, as the other views count it: who sent it, its state, and how long it took';
comment on column calls.time is 'when it was sent, UTC';
comment on column calls.server is 'name of the captured server, given by the user or guessed from the command or URL';
comment on column calls.client is 'name that the client gives itself. Untrusted text';
comment on column calls.capture is 'id of the capture';
comment on column calls.session is 'number of the session in the capture, from 1';
comment on column calls.request is 'frame number of the request';
comment on column calls.response is 'frame number of the response; NULL if there is none';
comment on column calls.asked_by is 'sender of the request: client or server';
comment on column calls.method is 'method of the request, such as tools/call';
comment on column calls.extension is 'identifier of the known extension that defines the method; NULL if none does';
comment on column calls.name is 'the tool, prompt or resource that it names; NULL if the method has none';
comment on column calls.outcome is 'its outcome, as in exchanges';
comment on column calls.state is 'cancelled (whether answered afterwards or not), answered (a result or an error), interim (an interim result, or a response that only starts a task), failed (its HTTP exchange), unanswered, or not_recorded (the response may be in what the capture lacks). A call that had failed, or could no longer be answered, before its cancellation is failed or unanswered, not cancelled';
comment on column calls.is_decided is 'whether it was answered or failed; error shares count only these';
comment on column calls.is_error is 'whether it was answered with an error (of a tool or JSON-RPC) or failed';
comment on column calls.is_abandoned is 'whether its sender gave up on it: cancelled with a reason that mentions a time-out, or after 5 s or more; or, up to 2025-11-25, its client closed the HTTP exchange';
comment on column calls.code is 'code of the error; NULL for tool errors';
comment on column calls.latency_ms is 'how long a timely response took; NULL if state is not answered, and for requests that only listen. slowest.latency_ms and exchanges.latency_ms include late responses';
comment on column calls.server_ms is 'the same without the time in which the responding side waited for the other side';
comment on column calls.started_ns is 'when it was handed on, in ns since the capture opened';
comment on column calls.until_ns is 'when it stopped being open: at the first of its response, its cancellation and the failure of its HTTP exchange; otherwise on stdio at the end of the server, and over HTTP at the end of its exchange or the last message of its session, whichever is later; while the capture is being recorded, when it was read';
comment on column calls.open_ms is 'how long it lasted: from started_ns to until_ns; NULL for requests that only listen, such as subscriptions/listen, because they are open as long as the client listens';
comment on column calls.waiting_ms is 'the part of the latency in which the responding side waited for the other side; NULL if unanswered';
comment on column calls.abandoned_ms is 'how long it had waited when it was abandoned; NULL if it was not';
comment on column calls.cancel_reason is 'the reason given in its cancellation; NULL if none was given, or it was not cancelled. Untrusted text';
comment on column calls.late_ms is 'how long after its cancellation a response came nevertheless; NULL if none came, or only the error {request_cancelled}, which acknowledges the cancellation';
comment on column calls.has_waited is 'whether the responding side waited for the other side';
comment on column calls.request_bytes is 'size of the frame of the request';
comment on column calls.response_bytes is 'size of the frame of the response; NULL if there is none';
comment on column calls.redirects is 'how many times it was redirected and repeated';
comment on column calls.probable_answer is 'for an unanswered call: frame number of a response that matches no request and was probably meant for this call; NULL if there is none. A guess';
comment on column calls.probable_answer_id is 'the id of that response as JSON writes it; NULL if it has none. Untrusted text';
comment on column calls.id is 'id of the request as JSON writes it: 7 or "7"; NULL if it is longer than 256 bytes, or an array or object';
comment on column calls.wait_ended_ns is 'the first of its response, its cancellation and the failure of its HTTP exchange; NULL if the capture has none of these';
comment on column calls.known_client is 'the client that wrote the next three ids, by members of _meta or a variable that only it has; NULL if there are none';
comment on column calls.turn_id is 'id of the turn, that is, of the prompt of the user that caused it; NULL if the client names none. Untrusted text';
comment on column calls.client_call_id is 'id that the model gave to the call of the tool; NULL if the client names none. Untrusted text';
comment on column calls.client_session is 'id of the conversation of the client, or a keyed hash of it; NULL if the client names none. Untrusted text';
comment on column calls.trace_id is 'id of its trace; NULL if it has none';
