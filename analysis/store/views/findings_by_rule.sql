-- one row per server, rule, level and side to blame: how often it was found, and where first
--
--     select rule, level, sum(findings) as findings
--     from findings_by_rule where blames = 'server' group by all
create view findings_by_rule as
with counted as (
    select
        captures.name as server, rule, level, blames,
        count(*) as findings,
        count(distinct (findings.capture, session)) as sessions,
        min(findings.time) as first_time,
        max(findings.time) as last_time,
        arg_min(findings.capture, (findings.time, findings.capture, frame)) as example_capture,
        arg_min(frame, (findings.time, findings.capture, frame)) as example_frame,
        arg_min(message, (findings.time, findings.capture, frame)) as example
    from findings join captures using (capture)
    group by all
)
select
    server, rule, level, blames, findings, sessions, first_time, last_time, example_capture, example_frame, example
from counted
order by case level when 'error' then 1 when 'warning' then 2 else 3 end, findings desc, server, rule, blames;
comment on view findings_by_rule is 'one row per server, rule, level and side to blame: how often it was found, and where first';
comment on column findings_by_rule.server is 'name of the captured server';
comment on column findings_by_rule.rule is 'id of the rule; `mcpproxy rule ID` explains it';
comment on column findings_by_rule.level is 'error, warning or note';
comment on column findings_by_rule.blames is 'whose doing it is: client, server, transport or unknown';
comment on column findings_by_rule.findings is 'how often it was found';
comment on column findings_by_rule.sessions is 'in how many sessions';
comment on column findings_by_rule.first_time is 'when first, UTC';
comment on column findings_by_rule.last_time is 'when last, UTC';
comment on column findings_by_rule.example_capture is 'capture of the first one';
comment on column findings_by_rule.example_frame is 'number of its frame';
comment on column findings_by_rule.example is 'what was wrong there, in a sentence. Foreign text in it';
