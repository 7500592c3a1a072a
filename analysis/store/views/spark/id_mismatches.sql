-- An empty list is `array()`.
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
        array()
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
