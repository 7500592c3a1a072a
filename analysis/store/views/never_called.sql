-- one row per server and tool that was listed but never called in these captures
--
--     select server, count(*) as tools, sum(definition_tokens_estimate) as tokens
--     from never_called group by server
create view never_called as
with listed as (
    select
        captures.server as server, tools.name as name,
        count(distinct (tools.capture, session)) as sessions,
        min(tools.time) as first_listed,
        max(tools.time) as last_listed,
        max_by(tools.bytes, (tools.time is null, tools.time, tools.capture, session, t_ns)) as definition_bytes,
        max_by(tokens_estimate, (tools.time is null, tools.time, tools.capture, session, t_ns)) as definition_tokens_estimate
    from tools join captures using (capture)
    group by all
),
called as (
    select distinct server, name from calls where method = 'tools/call' and asked_by = 'client'
)
select server, name, sessions, definition_bytes, definition_tokens_estimate, first_listed, last_listed
from listed
where not exists (
    select 1 from called where called.server is not distinct from listed.server and called.name = listed.name
)
order by definition_bytes desc, server nulls last, name;
comment on view never_called is 'one row per server and tool that was listed but never called in these captures';
comment on column never_called.server is 'name of the captured server';
comment on column never_called.name is 'name of the tool';
comment on column never_called.sessions is 'sessions that received its definition';
comment on column never_called.definition_bytes is 'size of the newest definition as compact JSON';
comment on column never_called.definition_tokens_estimate is 'definition_bytes / 4: an estimate of the tokens that a model reads for it in each session';
comment on column never_called.first_listed is 'when it was first listed, UTC';
comment on column never_called.last_listed is 'when it was last listed, UTC';
