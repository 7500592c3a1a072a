-- The exchanges among the messages of `said`. `doubt` names what pairs alone do not explain; the capture is then loaded
-- by the fold.

create temp table turn as
select seq, exchange, key, asks, of_client, next_seq, next_asks, before_asks
from (
    select
        seq, exchange, key, role = 'request' as asks, by_client = (role = 'request') as of_client,
        lead(seq) over side as next_seq, lead(role = 'request') over side as next_asks,
        lag(role = 'request') over side as before_asks
    from said
    where role in ('request', 'answer') and key is not null
    window side as (partition by by_client = (role = 'request'), key order by seq)
);

-- Requests of the client whose HTTP exchange failed while they were open.
create temp table lost as
select turn.seq, turn.next_asks, failed.record as lost, failed.is_refused
from turn join failed using (exchange)
where turn.asks and turn.of_client and failed.record > turn.seq
    and (turn.next_seq is null or failed.record < turn.next_seq);

-- Each request with its response.
create temp table pair as
select
    turn.seq, turn.next_seq as response, answer.t_ns as ended_ns, answer.exchange as answered_in, answer.outcome,
    answer.code, answer.error, answer.size as response_bytes
from turn join said as answer on answer.seq = turn.next_seq
where turn.asks and not turn.next_asks;

-- A stall counts if it was recorded before the response, or before the HTTP exchange failed. The fold looks for none if nothing can answer the request.
create temp table held as
select request.seq, stall.waited_ns
from (
    select seq, coalesce(response, lost) as until
    from said left join pair using (seq) left join lost using (seq)
    where role = 'request' and by_client and key is not null
) as request
join stalled as stall on request.seq between stall.first and stall.last
where until is null or stall.recorded < until;

create temp table asked as
select
    said.seq, said.t_ns, said.by_client, said.exchange, said.id, said.method, said.name, said.key, said.token, said.size,
    said.t_ns + coalesce(held.waited_ns, 0) as started_ns,
    coalesce(held.waited_ns, 0) as stall_ns,
    pair.* exclude (seq), coalesce(pair.response, lost.lost) as until
from said left join pair using (seq) left join lost using (seq) left join held using (seq)
where said.role = 'request';

-- Cancellations and progress mean the last request under that id or token, if it is still open.
create temp table cancelled as
select
    asked.seq, arg_min(told.t_ns, told.seq) as cancelled_ns, min(told.seq) as cancelled_seq,
    arg_min({reason: told.reason, is_timeout: told.is_timeout}, told.seq) as why
from (select * from said where role = 'notification' and cancels is not null) as told
asof join (select * from asked where key is not null) as asked
    on told.by_client = asked.by_client and told.cancels = asked.key and told.seq > asked.seq
where asked.until is null or asked.until > told.seq
group by asked.seq;

create temp table progressed as
select asked.seq, count(*) as progress
from (select * from said where role = 'notification' and told is not null) as told
asof join (select * from asked where token is not null) as asked
    on (not told.by_client) = asked.by_client and told.told = asked.token and told.seq > asked.seq
where asked.until is null or asked.until > told.seq
group by asked.seq;

-- How many requests are open: `in_flight` and `open_of_client` without those cancelled, `open_in_all` with them. Where
-- one request of the client is open, the sum of their numbers is its own; over HTTP, those of one exchange count.
create temp table flow as
select
    seq, step,
    sum(step) over course as in_flight,
    sum(client_step) over carried as open_of_client,
    sum(client_seq) over carried as only_open,
    sum(all_step) over course as open_in_all,
    sum(bytes) over course as open_bytes
from (
    select
        seq, exchange, 1 as step, (by_client and key is not null)::integer as client_step, 1 as all_step,
        if(by_client and key is not null, seq, 0) as client_seq, size as bytes
    from asked
    union all
    select
        until, exchange, -is_awaited::integer, -(by_client and is_awaited)::integer, -1,
        if(by_client and is_awaited, -seq, 0), -size
    from (
        select asked.*, cancelled_seq is null or cancelled_seq > until as is_awaited
        from asked left join cancelled using (seq) where until is not null
    )
    union all
    select cancelled_seq, exchange, -1, -by_client::integer, 0, if(by_client, -seq, 0), 0
    from cancelled join asked using (seq) where until is null or cancelled_seq < until
)
window course as (order by seq), carried as (partition by exchange order by seq);

-- When the server itself waited for the client, in the course of a request of the client.
create temp table waited as
select outer_seq as seq, sum(greatest(0, until_ns - greatest(from_ns, coalesce(before_ns, from_ns)))) as waiting_ns,
    count(*) as spans
from (
    select
        outer_seq, greatest(from_ns, started_ns) as from_ns, least(until_ns, ended_ns) as until_ns,
        max(least(until_ns, ended_ns)) over (
            partition by outer_seq order by from_ns, until_ns
            rows between unbounded preceding and 1 preceding
        ) as before_ns
    from (
        select
            during.seq as outer_seq, inner_one.t_ns as from_ns, inner_one.ended_ns as until_ns,
            during.started_ns, during.ended_ns
        from asked as inner_one
        join flow on flow.seq = inner_one.seq and flow.step = 1 and flow.open_of_client = 1
        join asked as during on during.seq = flow.only_open
        where not inner_one.by_client and inner_one.method <> 'ping'
            and inner_one.response < during.response
    )
)
group by outer_seq;

-- Requests over HTTP that a message in another exchange answers or cancels. The fold finds those by what names the
-- session, and forgets the oldest names.
create temp table crossing as
select seq, response as until from asked where answered_in <> exchange
union all
select cancelled.seq, cancelled_seq from cancelled join asked using (seq) where exchange is not null;

create temp table doubt as
select 'a frame that needs the fold' as why from said where is_quirk
union all select 'two requests under one id' from turn where asks and next_asks and seq not in (select seq from lost)
union all select 'a response behind the end of its exchange' from lost where not next_asks
union all select 'a response without a request' from turn where not asks and before_asks is not true
union all
-- Its own exchange brought the response to another request, and ended without one to it.
select 'responses in the exchanges of other requests'
from asked
where by_client and answered_in <> exchange
    and exchange in (select answered_in from asked where by_client and answered_in <> exchange)
union all select 'a response without an id' from said where role = 'answer' and key is null
union all
(
    select 'too many open requests'
    from flow where open_in_all > if(getvariable('is_http'), 12000, 40000) or open_bytes > 15000000 limit 1
)
union all
-- What ended without a response, and when, tells its outcome.
select 'an exchange that ended without a response'
from asked anti join unfinished using (exchange)
where exchange is not null and by_client and response is null and seq not in (select seq from lost)
union all
select 'a cancellation of what had failed'
from cancelled join asked using (seq)
where method = 'initialize' or cancelled_seq > getvariable('gone')
union all select 'too many waits' from waited where spans > 10000
union all
select 'requests that nothing can answer' from said where role = 'request' and key is null having count(*) > 1000
union all
select 'many subscriptions' from said
where method in ('resources/subscribe', 'resources/unsubscribe')
having count(distinct name) > 500 or max(size) > 8000 or max(length(name)) >= 256
union all
select 'a reference to an exchange that is very old or has no name'
from crossing where seq in (select seq from late) or until in (select seq from late)
union all
select 'an id used again after very many others'
from crossing
join turn using (seq)
join (select of_client, key, min(seq) as seq from turn where asks group by all) as first_use using (of_client, key)
where until - if(key = getvariable('used'), 0, first_use.seq) > getvariable('far');
