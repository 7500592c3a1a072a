-- What each plain line says, from one scan of the capture. A frame is plain if DuckDB's JSON parser and our judge cannot
-- differ about it: the conditions are those under which `captures.envelope` finds no problem, and a little stricter.
-- `quirk` marks plain frames whose meaning depends on more than pairs of requests and responses.
--
-- The pattern finds a NaN, an infinity or a minus zero as a value, a comma before a bracket, and escapes that could spell
-- the name of a member.

create temp table said as
with line as (
    select seq, t_ns, dir, exchange, unit, kind, id::varchar as id, method, code, raw
    from read_json(
        getvariable('segments'), format = 'newline_delimited', maximum_object_size = 8388608,
        columns = {seq: 'BIGINT', rec: 'VARCHAR', t_ns: 'BIGINT', dir: 'VARCHAR', exchange: 'BIGINT', unit: 'VARCHAR',
                   kind: 'VARCHAR', id: 'JSON', method: 'VARCHAR', code: 'BIGINT', raw: 'VARCHAR'}
    )
    where rec = 'frame' and seq >= getvariable('first')
),
read as (
    select
        *,
        raw is not null and strlen(raw) <= 200000
            and not regexp_matches(
                raw,
                '[:\[,][ \t\r\n]*(?:-0|-?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)[ \t\r\n]*[,\]}])'
                '|,[ \t\r\n]*[\]}]|\\/|\\u00[2-7]'
            )
            and 2 * strlen(raw) - strlen(replace(raw, '[', '')) - strlen(replace(raw, '{', '')) <= 100
            and json_valid(raw) as is_readable
    from line
),
parsed as (
    select
        *,
        case when is_readable then json_extract(raw, [
            '$.jsonrpc', '$.method', '$.id', '$.params.name', '$.params.uri', '$.params.ref.name', '$.params.ref.uri',
            '$.params._meta.progressToken', '$.params.progressToken', '$.params.requestId', '$.params.reason',
            '$.result.isError', '$.result.resultType', '$.error.code', '$.error.message'
        ]) end as value,
        case when is_readable then json_type(raw, [
            '$', '$.params', '$.result', '$.error', '$.params.name', '$.params.uri', '$.params.ref.name',
            '$.params.ref.uri', '$.params._meta.progressToken', '$.params.progressToken', '$.params.requestId',
            '$.params.reason', '$.result.task', '$.error.code', '$.error.message', '$.result.tools'
        ]) end as type,
        -- In brackets, as the path is that of what is inside. Objects with one member need not be looked at.
        case when is_readable then list_filter(json_keys('[' || raw || ']', '$..*'), lambda names: len(names) > 1)
        end as names
    from read
),
typed as (
    select
        seq, t_ns, exchange, kind, id, method, code, raw,
        dir = 'c2s' as by_client,
        coalesce(kind = 'invalid' and unit = 'sse_event' and raw = '', false) as is_priming,
        strlen(raw) as size,
        type[2] as params, type[3] as result, type[4] as error_type,
        value, type, names,
        is_readable
            and value[1] = '"2.0"' and type[1] = 'OBJECT'
            and (type[2] is null or type[2] = 'OBJECT')
            and ('"' || method || '"') is not distinct from value[2]::varchar
            and id is not distinct from value[3]::varchar as is_message
    from parsed
),
keyed as (
    select
        *,
        case when kind in ('request', 'notification') and type[9] in ('VARCHAR', 'UBIGINT', 'BIGINT')
            then value[8]::varchar end as token,
        case when kind = 'notification' and method in ('notifications/progress', 'progress')
            and type[10] in ('VARCHAR', 'UBIGINT', 'BIGINT') then value[9]::varchar end as told,
        case when kind = 'notification' and method in ('notifications/cancelled', 'cancelled')
            and type[11] in ('VARCHAR', 'UBIGINT', 'BIGINT') then value[10]::varchar end as cancels,
        case when kind = 'notification' and method in ('notifications/cancelled', 'cancelled') and type[12] = 'VARCHAR'
            then nullif(value[11] ->> '$', '') end as reason,
        coalesce(kind = 'response' and value[12] = 'true', false) as is_tool_error
    from typed
),
failed as (
    select
        *,
        case when is_tool_error and is_message then json_type(raw, ['$.result.content[0]', '$.result.content[0].text'])
        end as block_type
    from keyed
)
select
    seq, t_ns, by_client, exchange,
    case kind when 'error' then 'answer' when 'response' then 'answer' when 'invalid' then 'none' else kind end as role,
    case when kind <> 'notification' then id end as key,
    id, method, size,
    case when kind <> 'request' then null
        when type[5] = 'VARCHAR' then nullif(left(value[4] ->> '$', 256), '')
        when type[6] = 'VARCHAR' then nullif(left(value[5] ->> '$', 256), '')
        when type[7] = 'VARCHAR' then nullif(left(value[6] ->> '$', 256), '')
        when type[8] = 'VARCHAR' then nullif(left(value[7] ->> '$', 256), '')
    end as name,
    case when kind = 'request' then token end as token,
    told, cancels,
    left(reason, 300) as reason,
    coalesce(
        regexp_matches(left(reason, 1000), 'tim(?:e|ed)[\t-\r\x1c-\x20_-]?out|deadline|{request_timeout}', 'i'), false
    ) as is_timeout,
    case when kind = 'error' then 'error' when is_tool_error then 'tool_error' when kind = 'response' then 'result'
    end as outcome,
    code,
    case when kind = 'error' then left(value[15] ->> '$', 300)
        when is_tool_error and is_message then left(raw ->> '$.result.content[0].text', 300) end as error,
    case when kind = 'response' and type[16] = 'ARRAY' then sha256(json_extract(raw, '$.result')::varchar)
    end as listing,
    is_priming or coalesce(
        is_message
        and case kind
            when 'request' then id is not null and result is null and error_type is null and method <> ''
                and length(method) <= 60 and not starts_with(method, 'notifications/')
                and not starts_with(method, 'rpc.')
            when 'notification' then id is null and result is null and error_type is null and method <> ''
                and length(method) <= 60 and not starts_with(method, 'rpc.')
            when 'response' then id is not null and method is null and result = 'OBJECT' and error_type is null
            when 'error' then id is not null and method is null and result is null and error_type = 'OBJECT'
                and type[14] in ('UBIGINT', 'BIGINT') and strlen(value[14]::varchar) <= 15
                and code::varchar = value[14]::varchar and type[15] = 'VARCHAR'
        end
        and (kind = 'error' or code is null)
        -- Ids and tokens that have only one spelling.
        and coalesce(type[9], '') not in ('BOOLEAN', 'DOUBLE', 'HUGEINT')
        and coalesce(type[10], '') not in ('BOOLEAN', 'DOUBLE', 'HUGEINT')
        and coalesce(type[11], '') not in ('BOOLEAN', 'DOUBLE', 'HUGEINT')
        and coalesce(strlen(token) <= if(type[9] = 'VARCHAR', 200, 15) and not contains(token, '\'), true)
        and coalesce(strlen(told) <= if(type[10] = 'VARCHAR', 200, 15) and not contains(told, '\'), true)
        and coalesce(strlen(cancels) <= if(type[11] = 'VARCHAR', 200, 15) and not contains(cancels, '\'), true)
        and coalesce(strlen(reason) = length(reason), true)
        and (not is_tool_error or (block_type[1] = 'OBJECT' and block_type[2] = 'VARCHAR')),
        false
    ) as is_plain,
    coalesce(
        contains(raw, 'io.modelcontextprotocol')
        or method in ('initialize', 'server/discover', 'subscriptions/listen')
        or starts_with(method, 'tasks/') or starts_with(method, 'notifications/tasks')
        or value[13] in ('"input_required"', '"task"') or type[13] = 'OBJECT',
        false
    ) as is_quirk,
    strlen(to_json(raw)::varchar) - 2 as escaped,
    names
from failed;

-- Messages in which an object, at any depth, has a member twice. Peers use few sets of names, so each is looked at once.
create temp table repeated as
select names::varchar as names
from (select distinct names from said where is_plain)
where len(list_filter(names, lambda each: len(each) <> list_unique(each))) > 0;

update said set is_plain = false
where is_plain and exists (from repeated) and names::varchar in (select names from repeated);

-- Many bytes, and not needed any more.
alter table said drop column names;
