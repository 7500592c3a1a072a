-- one row per server and tool: what its definition costs, and what its calls returned
--
-- Every session reads all definitions, so each session pays for each definition again. The row shows the newest
-- definition; a tool that was called without being listed has none.
--
--     select server, count(*) as tools, sum(definition_bytes), sum(definition_tokens_estimate)
--     from tool_costs group by server
create view tool_costs as
with definitions as (
    select
        captures.server as server, tools.name as name,
        count(distinct (tools.capture, session)) as sessions,
        count(distinct hash) as definitions,
        max_by(tools.bytes, (tools.time is null, tools.time, tools.capture, session, t_ns)) as definition_bytes,
        max_by(tokens_estimate, (tools.time is null, tools.time, tools.capture, session, t_ns)) as definition_tokens_estimate
    from tools join captures using (capture)
    group by all
),
used as (
    select
        server, name,
        count(*) as calls,
        count(*) filter (where is_error) as errors,
        sum(response_bytes)::bigint as result_bytes,
        max(response_bytes) as largest_result_bytes
    from calls
    where method = 'tools/call' and asked_by = 'client' and name is not null
    group by all
)
select
    coalesce(definitions.server, used.server) as server,
    coalesce(definitions.name, used.name) as name,
    coalesce(sessions, 0) as sessions,
    coalesce(definitions, 0) as definitions,
    definition_bytes, definition_tokens_estimate,
    coalesce(calls, 0) as calls,
    coalesce(errors, 0) as errors,
    coalesce(result_bytes, 0) as result_bytes,
    round(coalesce(result_bytes, 0) / 4)::bigint as result_tokens_estimate,
    largest_result_bytes
from definitions full join used
    on used.server is not distinct from definitions.server and used.name = definitions.name
order by definition_bytes desc nulls last, server nulls last, name;
comment on view tool_costs is 'one row per server and tool: what its definition costs, and what its calls returned';
comment on column tool_costs.server is 'name of the captured server';
comment on column tool_costs.name is 'name of the tool';
comment on column tool_costs.sessions is 'sessions that received its definition; 0 if it was called without being listed';
comment on column tool_costs.definitions is 'number of different definitions that they received: more than 1 means that it changed, see tool_changes';
comment on column tool_costs.definition_bytes is 'size of the newest definition as compact JSON; NULL if it was never listed';
comment on column tool_costs.definition_tokens_estimate is 'definition_bytes / 4: an estimate of the tokens that a model reads for it in each session';
comment on column tool_costs.calls is 'calls of the tool, whatever their outcome';
comment on column tool_costs.errors is 'calls that ended in an error (of the tool or JSON-RPC) or a failed HTTP exchange; cancelled calls do not count';
comment on column tool_costs.result_bytes is 'bytes of all responses to these calls';
comment on column tool_costs.result_tokens_estimate is 'result_bytes / 4: an estimate';
comment on column tool_costs.largest_result_bytes is 'bytes of the largest response; NULL if there is none';
