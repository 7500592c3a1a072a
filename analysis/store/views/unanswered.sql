-- one row per request that has no answer, was not cancelled, and did not fail over HTTP
--
--     select server, method, name, count(*) as requests, max(waited_ms) from unanswered group by all
create view unanswered as
select
    exchanges.time as time,
    captures.name as server, capture, session, request, exchanges.id as id, asked_by, method, exchanges.name as name,
    round(started_ns / 1e6, 3) as at_ms,
    round(greatest(0, captures.duration_ns - started_ns) / 1e6, 3) as waited_ms,
    captures.is_live as is_live,
    captures.lost > 0 or captures.unjudged > 0 or captures.damage > 0 as may_be_lost
from exchanges join captures using (capture)
where outcome = 'unanswered'
order by exchanges.time, capture, request;
comment on view unanswered is 'one row per request that has no answer, was not cancelled, and did not fail over HTTP';
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
comment on column unanswered.waited_ms is 'from then to the end of the capture';
comment on column unanswered.is_live is 'whether the capture is still being recorded: an answer may still come';
comment on column unanswered.may_be_lost is 'whether the capture has lost records, damage or frames that could not be looked into: the answer may be among them';
