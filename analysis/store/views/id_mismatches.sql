-- one row per mismatched id: findings of the rules about ids, and responses that match no request
--
-- The rules report nothing if they cannot be sure. So responses that match no request are listed even if no rule reports
-- them: their request may have been sent before the recording began, or may be lost. They have no rule and no level.
--
--     select what, rule, blames, count(*) as times from id_mismatches group by all order by times desc
create view id_mismatches as
with mismatches as (
    select capture, session, t_ns, time, frame, rule, level, blames, method, message as text, related
    from findings
    where findings.group = 'id'
    union all
    select
        capture, session, t_ns, time, seq, null, null, null, null,
        case
            when id is null or id = 'null' then 'an answer without an id'
            else 'an answer to ' || left(id, 64) || ', and no such request was seen'
        end,
        []
    from frames
    where kind in ('response', 'error') and request is null
        and not exists (
            select 1 from findings
            where findings.capture = frames.capture and findings.frame = frames.seq and findings.group = 'id'
        )
)
select
    mismatches.time as time,
    round(t_ns / 1e6, 3) as at_ms,
    captures.server as server, capture, session, frame,
    case rule
        when 'id/null' then 'request without an id'
        when 'id/not-string-or-integer' then 'id neither string nor integer'
        when 'id/float-integer' then 'id written as a fraction'
        when 'id/unsafe-integer' then 'id too large for many peers'
        when 'id/duplicate-in-flight' then 'id used twice at once'
        when 'id/duplicate-request' then 'id used again'
        when 'id/unknown-response' then 'answer to nothing'
        when 'id/self-answered' then 'answer to oneself'
        when 'id/type-changed' then 'answer with another type of id'
        when 'id/duplicate-response' then 'second answer'
        when 'id/echoed-frame' then 'request sent back'
        else coalesce(rule, 'answer without a request')
    end as what,
    rule, level, blames, method, text, related
from mismatches join captures using (capture)
order by mismatches.time nulls last, capture, frame;
comment on view id_mismatches is 'one row per mismatched id: findings of the rules about ids, and responses that match no request';
comment on column id_mismatches.time is 'when the frame was read, UTC';
comment on column id_mismatches.at_ms is 'when, in ms since the capture opened';
comment on column id_mismatches.server is 'name of the captured server';
comment on column id_mismatches.capture is 'id of the capture';
comment on column id_mismatches.session is 'number of the session in the capture, from 1';
comment on column id_mismatches.frame is 'number of the frame with the id';
comment on column id_mismatches.what is 'the problem, in a few words';
comment on column id_mismatches.rule is 'id of the rule; NULL if the capture does not prove a violation';
comment on column id_mismatches.level is 'error, warning or note; NULL if there is no rule';
comment on column id_mismatches.blames is 'side at fault: client, server, transport or unknown; NULL if there is no rule';
comment on column id_mismatches.method is 'method of the message; for a response, that of its request; NULL if there is no rule';
comment on column id_mismatches.text is 'the problem, in a sentence. Contains untrusted text';
comment on column id_mismatches.related is 'numbers of other frames that prove it';
