-- The rows of the requests of one segment, and of what became of them. `clock(…)` stands for the wall clock.

insert into made.exchanges by name
select
    getvariable('id') as capture, 1 as session, asked.seq as request, asked.response, asked.id, asked.method,
    asked.name, if(asked.by_client, 'client', 'server') as asked_by,
    if(asked.by_client, getvariable('revision'), getvariable('server_revision')) as revision,
    if(asked.by_client, 'handshake', getvariable('server_era')) as era,
    case
        when asked.response is not null then asked.outcome
        when lost.seq is not null and (lost.is_refused or cancelled.seq is null) then 'failed'
        when cancelled.seq is not null then 'cancelled'
        else 'unanswered'
    end as outcome,
    asked.code, asked.error,
    asked.started_ns, asked.ended_ns, clock(asked.started_ns) as time,
    case when asked.ended_ns is not null then greatest(0, asked.ended_ns - asked.started_ns) / 1e6 end as latency_ms,
    case when asked.ended_ns is not null
        then greatest(0, asked.ended_ns - asked.started_ns - coalesce(waited.waiting_ns, 0)) / 1e6 end as server_ms,
    asked.stall_ns / 1e6 as stall_ms,
    case when asked.ended_ns is not null then coalesce(waited.waiting_ns, 0) / 1e6 end as waiting_ms,
    asked.size as request_bytes, asked.response_bytes, coalesce(progressed.progress, 0) as progress,
    cancelled.cancelled_ns, cancelled.why.reason as cancel_reason,
    coalesce(
        greatest(0, cancelled.cancelled_ns - asked.started_ns) >= 5000000000 or cancelled.why.is_timeout, false
    ) as is_abandoned,
    flow.in_flight, asked.exchange, 0 as redirects
from asked
left join cancelled using (seq)
left join lost using (seq)
left join progressed using (seq)
left join waited using (seq)
join flow on flow.seq = asked.seq and flow.step = 1
where asked.seq >= getvariable('since') and asked.seq < getvariable('until');
