-- JSON in a text is read by `get_json_object`: below an array, which keeps the quotes that tell "1" from 1, and with the
-- keys, which tell null from nothing.
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
    concat_ws(', ', filter(
        array('title', 'description', 'inputSchema', 'outputSchema', 'annotations'),
        member ->
            array_contains(json_object_keys(definition), member) <> array_contains(json_object_keys(before), member)
            or get_json_object('[' || definition || ']', '$[*].' || member)
                is distinct from get_json_object('[' || before || ']', '$[*].' || member)
    )) as what,
    bytes_before, bytes, version_before, server_version as version, capture_before, session_before,
    get_json_object(definition, '$.description') as description,
    get_json_object(before, '$.description') as description_before
from compared
where hash_before <> hash
order by time nulls last, server nulls last, name;
