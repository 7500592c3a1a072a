-- one row per request without an answer: still open, or abandoned by its sender; HTTP failures are left out
--
-- A call that timed out is included: its client cancelled it and got no answer. One that was answered late is not; it is
-- in `calls`, where `is_abandoned` and `late_ms` say so. A call that was cancelled early for another reason is not either.
--
--     select server, method, name, why, count(*) as requests, max(waited_ms) from unanswered group by all
create view unanswered as
with blind as (
    select capture, case dir when 's2c' then 'client' else 'server' end as asked_by, max(seq) as last_unjudged
    from frames
    where kind = 'unjudged'
    group by all
)
select
    exchanges.time as time,
    captures.name as server, exchanges.capture as capture, session, request, exchanges.id as id, exchanges.asked_by as asked_by, method, exchanges.name as name,
    round(started_ns / 1e6, 3) as at_ms,
    round(greatest(0, coalesce(exchanges.cancelled_ns, captures.duration_ns) - started_ns) / 1e6, 3) as waited_ms,
    case
        when is_abandoned then 'abandoned'
        when captures.lost > 0 or captures.damage > 0 or coalesce(last_unjudged > request, false) then 'lost'
        else 'open'
    end as why,
    cancel_reason as reason, probable_answer, probable_answer_id,
    captures.is_live as is_live,
    captures.lost > 0 or captures.damage > 0 as may_be_lost,
    coalesce(last_unjudged > request, false) as may_be_unjudged
from exchanges join captures using (capture)
    left join blind on blind.capture = exchanges.capture and blind.asked_by = exchanges.asked_by
where outcome = 'unanswered' or (outcome = 'cancelled' and is_abandoned)
order by exchanges.time, exchanges.capture, request;
comment on view unanswered is 'one row per request without an answer: still open, or abandoned by its sender; HTTP failures are left out';
comment on column unanswered.time is 'when it was sent, UTC';
comment on column unanswered.server is 'name of the captured server';
comment on column unanswered.capture is 'id of the capture';
comment on column unanswered.session is 'number of the session in the capture, from 1';
comment on column unanswered.request is 'number of the frame of the request';
comment on column unanswered.id is 'its id as JSON writes it: 7 or "7"; NULL where that has more than 256 bytes or is an array or object';
comment on column unanswered.asked_by is 'who asked: client or server';
comment on column unanswered.method is 'what was asked for';
comment on column unanswered.name is 'the tool, prompt or resource; NULL where the method has none';
comment on column unanswered.at_ms is 'when it was handed on, in ms since the capture opened';
comment on column unanswered.waited_ms is 'from then to the cancellation, or else to the end of the capture; it grows while that is being recorded';
comment on column unanswered.why is 'abandoned (cancelled for a reason that says time-out, or after 5 s or more), lost (the answer may be in what the capture lost, or could not be looked into) or open';
comment on column unanswered.reason is 'the reason that its cancellation gave; NULL where there is none. Foreign text';
comment on column unanswered.probable_answer is 'number of the frame of an answer that fits no request and was probably meant for this one, as it was the only request open then, or the oldest; NULL where there is none. A guess';
comment on column unanswered.probable_answer_id is 'the id of that answer, which is wrong, as JSON writes it; NULL where it has none. Foreign text';
comment on column unanswered.is_live is 'whether the capture is still being recorded: an answer may still come';
comment on column unanswered.may_be_lost is 'whether the capture has lost records or is damaged: the answer may be in what is missing';
comment on column unanswered.may_be_unjudged is 'whether a frame of the side that was asked came later and could not be looked into, because it is too big, too deep or incomplete: it may be the answer';
