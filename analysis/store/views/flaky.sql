-- one row per server, method and name whose error share differs between sessions or days
--
-- A tool that fails in every tenth call is not flaky; a tool that fails in all calls of every tenth session is. Groups
-- with fewer than five decided calls are left out. For the others, chi square measures how far their shares differ, and
-- `surprise` says by how many standard deviations this exceeds what chance explains if all have the same share. It is at
-- least 4, which chance alone exceeds for one to three names in a thousand; if you have many names, require more.
--
--     select name, varies_by, groups, lowest_share, highest_share from flaky where surprise >= 6
create view flaky as
with grouped as (
    select
        server, asked_by, method, name, 'session' as varies_by, count(*) as calls, count(*) filter (where is_error) as errors
    from calls
    where is_decided
    group by server, asked_by, method, name, capture, session
    union all
    select server, asked_by, method, name, 'day', count(*), count(*) filter (where is_error)
    from calls
    where is_decided and time is not null
    group by server, asked_by, method, name, cast(time as date)
),
shares as (
    select *, sum(errors) over same / sum(calls) over same as share
    from grouped
    where calls >= 5
    window same as (partition by server, asked_by, method, name, varies_by)
),
summed as (
    select
        server, asked_by, method, name, varies_by,
        count(*) as groups,
        count(*) filter (where errors > 0) as groups_with_errors,
        sum(calls)::bigint as calls,
        sum(errors)::bigint as errors,
        any_value(share) as share,
        min(errors / calls) as lowest,
        max(errors / calls) as highest,
        sum(power(errors - calls * share, 2) / (calls * share * (1 - share))) as chi_square,
        -- Its variance if all shares are equal; the usual 2 per group is right only if there are many errors.
        sum(2 + (1 - 6 * share * (1 - share)) / (calls * share * (1 - share))) as variance
    from shares
    where share > 0 and share < 1
    group by server, asked_by, method, name, varies_by
),
surprising as (
    select *, (chi_square - (groups - 1)) / sqrt(variance) as surprise
    from summed
    where groups > 1
)
select
    server, asked_by, method, name, varies_by, groups, groups_with_errors, calls, errors,
    round(share, 4) as error_share,
    round(lowest, 4) as lowest_share,
    round(highest, 4) as highest_share,
    round(surprise, 1) as surprise
from surprising
where surprise >= 4
order by surprise desc, server nulls last, asked_by, method, name nulls last, varies_by;
comment on view flaky is 'one row per server, method and name whose error share differs between sessions or days';
comment on column flaky.server is 'name of the captured server';
comment on column flaky.asked_by is 'sender of the request: client or server';
comment on column flaky.method is 'method of the request';
comment on column flaky.name is 'the tool, prompt or resource; NULL if the method has none';
comment on column flaky.varies_by is 'what the share differs between: session or day (UTC)';
comment on column flaky.groups is 'sessions or days with at least five decided calls: the more there are, the more certain the result';
comment on column flaky.groups_with_errors is 'groups with at least one error';
comment on column flaky.calls is 'decided calls in these groups: answered or failed over HTTP, and not cancelled';
comment on column flaky.errors is 'decided calls that were errors';
comment on column flaky.error_share is 'errors / calls, from 0 to 1';
comment on column flaky.lowest_share is 'error share of the session or day with the lowest share';
comment on column flaky.highest_share is 'error share of the session or day with the highest share';
comment on column flaky.surprise is 'by how many standard deviations the shares differ more than chance explains; at least 4';
