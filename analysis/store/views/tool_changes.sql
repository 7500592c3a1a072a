-- one row per change of a tool: a definition that differs from the previous one from the same server
--
-- A server is the same if it was recorded under the same name and gives itself the same name. A tool that is listed for
-- the first time, or no longer listed, is not a change. Changing a tool after its approval is a known attack, so look at
-- `what`: a new description may give a model new instructions.
--
--     select time, server, name, what, version_before, version
--     from tool_changes where what like '%description%'
create view tool_changes as
with told as (
    select
        captures.server as server, sessions.server_name as calls_itself, sessions.server_version as server_version,
        tools.name as name, tools.capture as capture, tools.session as session, listed, tools.t_ns as t_ns,
        tools.time as time, hash, tools.bytes as bytes, definition
    from tools join captures using (capture)
        left join sessions on sessions.capture = tools.capture and sessions.session = tools.session
),
compared as (
    select
        *,
        lag(hash) over earlier as hash_before,
        lag(bytes) over earlier as bytes_before,
        lag(definition) over earlier as before,
        lag(capture) over earlier as capture_before,
        lag(session) over earlier as session_before,
        lag(server_version) over earlier as version_before
    from told
    window earlier as (partition by server, calls_itself, name order by time nulls last, capture, session, t_ns, listed)
)
select
    time, server, name, capture, session, listed as frame,
    array_to_string([
        case when (definition -> '$.title') is distinct from (before -> '$.title') then 'title' end,
        case when (definition -> '$.description') is distinct from (before -> '$.description') then 'description' end,
        case when (definition -> '$.inputSchema') is distinct from (before -> '$.inputSchema') then 'inputSchema' end,
        case when (definition -> '$.outputSchema') is distinct from (before -> '$.outputSchema') then 'outputSchema' end,
        case when (definition -> '$.annotations') is distinct from (before -> '$.annotations') then 'annotations' end
    ], ', ') as what,
    bytes_before, bytes, version_before, server_version as version, capture_before, session_before,
    definition ->> '$.description' as description,
    before ->> '$.description' as description_before
from compared
where hash_before <> hash
order by time nulls last, server nulls last, name;
comment on view tool_changes is 'one row per change of a tool: a definition that differs from the previous one from the same server';
comment on column tool_changes.time is 'when the changed definition was listed, UTC';
comment on column tool_changes.server is 'name of the captured server';
comment on column tool_changes.name is 'name of the tool';
comment on column tool_changes.capture is 'capture in which it was listed';
comment on column tool_changes.session is 'number of the session in that capture';
comment on column tool_changes.frame is 'frame number of the list that contains it';
comment on column tool_changes.what is 'which members of the definition changed: title, description, inputSchema, outputSchema, annotations; empty if only others changed';
comment on column tool_changes.bytes_before is 'size of the earlier definition as compact JSON';
comment on column tool_changes.bytes is 'size of this definition';
comment on column tool_changes.version_before is 'version that the server stated with the earlier definition';
comment on column tool_changes.version is 'version that the server states now: a change without a new version is more suspicious';
comment on column tool_changes.capture_before is 'capture in which the earlier definition was listed';
comment on column tool_changes.session_before is 'number of the session in that capture';
comment on column tool_changes.description is 'the description now. Untrusted text';
comment on column tool_changes.description_before is 'the description before. Untrusted text';
