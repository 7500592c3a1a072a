-- one row per error or warning about how sessions begin, negotiate and end
--
-- It covers the rule groups about what the specification calls the life cycle: the handshake (lifecycle), the version
-- (version), the envelope that replaces both since 2026-07-28 (modern), the use of declared capabilities (capability) and
-- the end (shutdown), and two rules of other groups about `initialize`. Notes are left out, because they are not
-- violations: `findings` has them.
--
--     select server, part, level, text, capture, frame from lifecycle_violations
create view lifecycle_violations as
with violations as (
    select
        *,
        case
            when findings.group in ('lifecycle', 'version', 'capability') then findings.group
            when findings.group = 'modern' then 'envelope'
            when findings.group = 'shutdown' then 'shutdown'
            when rule in ('timeout/initialize-unanswered', 'batch/contains-initialize') then 'lifecycle'
        end as part
    from findings
    where level in ('error', 'warning')
)
select
    violations.time as time,
    round(t_ns / 1e6, 3) as at_ms,
    captures.server as server, captures.capture as capture, violations.session as session, sessions.revision as revision,
    case part when 'lifecycle' then 'handshake' else part end as part,
    rule, level, blames, frame, method, message as text, source
from violations join captures using (capture)
    left join sessions on sessions.capture = violations.capture and sessions.session = violations.session
where part is not null
order by violations.time nulls last, captures.capture, frame, rule;
comment on view lifecycle_violations is 'one row per error or warning about how sessions begin, negotiate and end';
comment on column lifecycle_violations.time is 'when the problem occurred, UTC';
comment on column lifecycle_violations.at_ms is 'when, in ms since the capture opened';
comment on column lifecycle_violations.server is 'name of the captured server';
comment on column lifecycle_violations.capture is 'id of the capture';
comment on column lifecycle_violations.session is 'number of the session in the capture; 0 if it belongs to none';
comment on column lifecycle_violations.revision is 'revision of MCP that the session speaks';
comment on column lifecycle_violations.part is 'part of the life cycle: handshake, version, envelope (what each request states about itself since 2026-07-28), capability or shutdown';
comment on column lifecycle_violations.rule is 'id of the rule; `mcpproxy rule ID` explains it';
comment on column lifecycle_violations.level is 'error (the revision forbids it) or warning';
comment on column lifecycle_violations.blames is 'side at fault: client, server, transport or unknown';
comment on column lifecycle_violations.frame is 'number of the record with the problem';
comment on column lifecycle_violations.method is 'method of the message; for a response, that of its request';
comment on column lifecycle_violations.text is 'the problem, in a sentence. Contains untrusted text';
comment on column lifecycle_violations.source is 'source of the requirement: a page of the specification, or an RFC';
