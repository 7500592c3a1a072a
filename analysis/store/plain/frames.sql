-- The rows of the frames of one segment, from a second scan of it. `clock(…)` stands for the wall clock.

insert into made.frames by name
select
    getvariable('id') as capture, line.seq, line.t_ns, clock(line.t_ns) as time, line.dir, 1 as session,
    coalesce(line.conn, 0) as conn, line.exchange, coalesce(line.unit, 'line') as unit,
    line.event_id, line.kind, line.id::varchar as id, line.method, link.name, line.code, strlen(line.raw) as size,
    link.request, line.raw <> '' as is_json, if(line.raw = '', 'not JSON', null) as message_problem,
    encode(line.raw) as raw
from (
    select seq, t_ns, dir, conn, exchange, unit, event_id, kind, id, method, code, raw
    from read_json(
        getvariable('segment'), format = 'newline_delimited', maximum_object_size = 8388608,
        columns = {seq: 'BIGINT', rec: 'VARCHAR', t_ns: 'BIGINT', dir: 'VARCHAR', conn: 'BIGINT', exchange: 'BIGINT',
                   unit: 'VARCHAR', event_id: 'VARCHAR', kind: 'VARCHAR', id: 'JSON', method: 'VARCHAR', code: 'BIGINT',
                   raw: 'VARCHAR'}
    )
    where rec = 'frame' and seq >= getvariable('since') and seq < getvariable('until')
) as line
left join (
    from link where seq >= getvariable('since') and seq < getvariable('until')
) as link using (seq)
where line.seq not in (select seq from odd);
