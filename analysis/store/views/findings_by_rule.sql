-- one row per server, rule, level and side at fault: how often the rule was violated, and where first
--
--     select rule, level, sum(findings) as findings
--     from findings_by_rule where blames = 'server' group by all
create view findings_by_rule as
with counted as (
    select
        captures.server as server, rule, level, blames,
        count(*) as findings,
        count(distinct (findings.capture, session)) as sessions,
        min(findings.time) as first_time,
        max(findings.time) as last_time,
        min_by(findings.capture, (findings.time is null, findings.time, findings.capture, frame, message)) as example_capture,
        min_by(frame, (findings.time is null, findings.time, findings.capture, frame, message)) as example_frame,
        min_by(message, (findings.time is null, findings.time, findings.capture, frame, message)) as example
    from findings join captures using (capture)
    group by all
)
select
    server, rule, level, blames, findings, sessions, first_time, last_time, example_capture, example_frame, example
from counted
order by case level when 'error' then 1 when 'warning' then 2 else 3 end, findings desc, server nulls last, rule, blames;
comment on view findings_by_rule is 'one row per server, rule, level and side at fault: how often the rule was violated, and where first';
comment on column findings_by_rule.server is 'name of the captured server';
comment on column findings_by_rule.rule is 'id of the rule; `mcpproxy rule ID` explains it';
comment on column findings_by_rule.level is 'error, warning or note';
comment on column findings_by_rule.blames is 'side at fault: client, server, transport or unknown';
comment on column findings_by_rule.findings is 'number of findings';
comment on column findings_by_rule.sessions is 'number of sessions with a finding';
comment on column findings_by_rule.first_time is 'time of the first finding, UTC';
comment on column findings_by_rule.last_time is 'time of the last finding, UTC';
comment on column findings_by_rule.example_capture is 'capture of the first finding';
comment on column findings_by_rule.example_frame is 'number of its frame';
comment on column findings_by_rule.example is 'the problem there, in a sentence. Contains untrusted text';
