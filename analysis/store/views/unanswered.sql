-- one row per unanswered request: still open, or abandoned by its sender; HTTP failures are left out
--
-- A call that timed out is included: its client cancelled it and got no response. A call that was answered late is not:
-- it is in `calls`, with `is_abandoned` and `late_ms`. Nor is a call that was cancelled early for another reason.
--
--     select server, method, name, why, count(*) as requests, max(open_ms) from unanswered group by all
create view unanswered as
with blind as (
    select capture, case dir when 's2c' then 'client' else 'server' end as asked_by, max(seq) as last_unjudged
    from frames
    where kind = 'unjudged'
    group by all
)
select
    calls.time as time,
    calls.server as server, calls.capture as capture, session, request, calls.id as id, calls.asked_by as asked_by, method, calls.name as name,
    round(started_ns / 1e6, 3) as at_ms,
    round((until_ns - started_ns) / 1e6, 3) as open_ms,
    case
        when is_abandoned then 'abandoned'
        when captures.lost > 0 or captures.damage > 0 or coalesce(last_unjudged > request, false) then 'lost'
        else 'open'
    end as why,
    cancel_reason as reason, probable_answer, probable_answer_id,
    captures.is_live as is_live,
    captures.lost > 0 or captures.damage > 0 as may_be_lost,
    coalesce(last_unjudged > request, false) as may_be_unjudged
from calls join captures using (capture)
    left join blind on blind.capture = calls.capture and blind.asked_by = calls.asked_by
where outcome = 'unanswered' or (outcome = 'cancelled' and is_abandoned)
order by calls.time nulls last, calls.capture, request;
comment on view unanswered is 'one row per unanswered request: still open, or abandoned by its sender; HTTP failures are left out';
comment on column unanswered.time is 'when it was sent, UTC';
comment on column unanswered.server is 'name of the captured server';
comment on column unanswered.capture is 'id of the capture';
comment on column unanswered.session is 'number of the session in the capture, from 1';
comment on column unanswered.request is 'frame number of the request';
comment on column unanswered.id is 'its id as JSON writes it: 7 or "7"; NULL if it is longer than 256 bytes, or an array or object';
comment on column unanswered.asked_by is 'sender of the request: client or server';
comment on column unanswered.method is 'method of the request';
comment on column unanswered.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column unanswered.at_ms is 'when it was handed on, in ms since the capture opened';
comment on column unanswered.open_ms is 'from then until it stopped being open (calls.until_ns): to the cancellation, otherwise on stdio to the end of the server; grows while the capture is being recorded';
comment on column unanswered.why is 'abandoned (cancelled with a reason that mentions a time-out, or after 5 s or more; or, up to 2025-11-25, its client closed the HTTP exchange), lost (the response may be among the lost records or the frames that could not be parsed) or open';
comment on column unanswered.reason is 'the reason given in its cancellation; NULL if there is none. Untrusted text';
comment on column unanswered.probable_answer is 'frame number of a response that matches no request and was probably meant for this one, the only or oldest request open at that time; NULL if there is none. A guess';
comment on column unanswered.probable_answer_id is 'the wrong id of that response as JSON writes it; NULL if it has none. Untrusted text';
comment on column unanswered.is_live is 'whether the capture is still being recorded: a response may still come';
comment on column unanswered.may_be_lost is 'whether the capture has lost records or is damaged: the response may be among what is missing';
comment on column unanswered.may_be_unjudged is 'whether the responding side later sent a frame that could not be parsed because it is too large, too deeply nested or incomplete: it may be the response';
