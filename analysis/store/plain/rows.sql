-- The rows, from a second scan of the capture. `clock(…)` stands for the wall clock.

insert into made.frames by name
select
    getvariable('id') as capture, line.seq, line.t_ns, clock(line.t_ns) as time, line.dir, 1 as session,
    coalesce(line.conn, 0) as conn, line.exchange, coalesce(line.unit, 'line') as unit, line.event_id, line.kind, line.id::varchar as id, line.method, link.name, line.code, strlen(line.raw) as size,
    link.request, true as is_json, encode(line.raw) as raw
from (
    select seq, t_ns, dir, conn, exchange, unit, event_id, kind, id, method, code, raw
    from read_json(
        getvariable('segments'), format = 'newline_delimited', maximum_object_size = 8388608,
        columns = {seq: 'BIGINT', rec: 'VARCHAR', t_ns: 'BIGINT', dir: 'VARCHAR', conn: 'BIGINT', exchange: 'BIGINT',
                   unit: 'VARCHAR', event_id: 'VARCHAR', kind: 'VARCHAR', id: 'JSON', method: 'VARCHAR', code: 'BIGINT',
                   raw: 'VARCHAR'}
    )
    where rec = 'frame' and seq >= getvariable('first')
) as line
left join (
    select seq, seq as request, name from said where role = 'request'
    union all
    select asked.response, asked.seq, said.name from asked join said using (seq) where asked.response is not null
) as link using (seq)
where line.seq not in (select seq from odd);

insert into made.exchanges by name
select
    getvariable('id') as capture, 1 as session, asked.seq as request, asked.response, request.id, request.method,
    request.name, if(asked.by_client, 'client', 'server') as asked_by,
    if(asked.by_client, getvariable('revision'), getvariable('server_revision')) as revision,
    if(asked.by_client, 'handshake', getvariable('server_era')) as era,
    case
        when asked.response is not null then answer.outcome
        when lost.seq is not null and (lost.is_refused or cancelled.seq is null) then 'failed'
        when cancelled.seq is not null then 'cancelled'
        else 'unanswered'
    end as outcome,
    answer.code, answer.error,
    asked.started_ns, asked.ended_ns, clock(asked.started_ns) as time,
    case when asked.ended_ns is not null then greatest(0, asked.ended_ns - asked.started_ns) / 1e6 end as latency_ms,
    case when asked.ended_ns is not null
        then greatest(0, asked.ended_ns - asked.started_ns - coalesce(waited.waiting_ns, 0)) / 1e6 end as server_ms,
    asked.stall_ns / 1e6 as stall_ms,
    case when asked.ended_ns is not null then coalesce(waited.waiting_ns, 0) / 1e6 end as waiting_ms,
    asked.size as request_bytes, answer.size as response_bytes, coalesce(progressed.progress, 0) as progress,
    cancelled.cancelled_ns, reason.reason as cancel_reason,
    coalesce(
        greatest(0, cancelled.cancelled_ns - asked.started_ns) >= 5000000000 or reason.is_timeout, false
    ) as is_abandoned,
    flow.in_flight, request.exchange
from asked
join said as request using (seq)
left join said as answer on answer.seq = asked.response
left join cancelled using (seq)
left join lost using (seq)
left join said as reason on reason.seq = cancelled.cancelled_seq
left join progressed using (seq)
left join waited using (seq)
join flow on flow.seq = asked.seq and flow.step = 1;
