-- As claim.sql, for queues whose tenant or kind has a limit or a rate. Runs after the advisory lock of the limits, which
-- is a statement of its own, so that this snapshot sees every claim made before it.
-- Beside the claims it returns the room that is left: a row for each tenant of the turns, and each kind, with a limit.
with wanted as materialized (
    select *
    from unnest(%(lanes)s::smallint[], %(tenants)s::bigint[], %(kinds)s::text[], %(counts)s::int[],
                %(after_priorities)s::smallint[], %(after_jobs)s::bigint[])
         with ordinality as w(lane, tenant_id, kind, count, after_priority, after_job, turn)
), bucket as materialized (
    -- A row that somebody holds locked is not waited for: its kind gives nothing for the moment.
    select k.kind, coalesce(k.rate, k.declared_rate) as rate, n.now,
           least(c.capacity, coalesce(k.tokens, c.capacity)
                             + greatest(0, extract(epoch from n.now - k.refilled_at)::float8)
                               * coalesce(k.rate, k.declared_rate)) as tokens
    from batchproc.kinds k
    cross join lateral (
        select coalesce(case when k.rate is null then k.declared_burst else k.burst end,
                        greatest(1, ceil(coalesce(k.rate, k.declared_rate)))) as capacity
    ) c
    cross join (select clock_timestamp() as now offset 0) n
    where k.kind = any(%(kinds)s::text[]) and coalesce(k.rate, k.declared_rate) is not null
    for no key update of k skip locked
), kind_rooms as materialized (
    select k.kind, k.paused, b.rate, b.tokens, b.now,
           coalesce(k.max_running, k.declared_limit)
               - (select count(*) from batchproc.processing_jobs r
                  where r.state = 'running' and r.kind = k.kind
                    and coalesce(k.max_running, k.declared_limit) is not null) as slots,
           case when coalesce(k.rate, k.declared_rate) is not null then coalesce(floor(b.tokens), 0)::int end as starts
    from (select distinct kind from wanted) w
    join batchproc.kinds k on k.kind = w.kind
    left join bucket b on b.kind = k.kind
), tenant_rooms as materialized (
    select t.tenant_id, t.paused,
           t.max_running - (select count(*) from batchproc.processing_jobs r
                            where r.state = 'running' and r.tenant_id = t.tenant_id
                              and t.max_running is not null) as slots,
           -- Whether this node has the languages of the tenant, or where that names none, of its own settings.
           coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
               and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]')) as able
    from (select distinct tenant_id from wanted) w
    join batchproc.tenants t on t.tenant_id = w.tenant_id
), roomy as (
    select w.*, t.able as tenant_able, t.slots as tenant_room, least(k.slots, k.starts) as kind_room
    from wanted w
    join tenant_rooms t on t.tenant_id = w.tenant_id and not t.paused
    left join kind_rooms k on k.kind = w.kind
    where k.paused is not true
), locked as (
    select w.turn, w.tenant_id, w.kind, w.tenant_room, w.kind_room, j.priority, j.job_id
    from roomy w
    cross join lateral (
        select priority, job_id
        from batchproc.processing_jobs
        where state = 'available' and lane = w.lane and tenant_id = w.tenant_id and kind = w.kind
          and (priority, job_id) > (w.after_priority, w.after_job)
          and (w.kind <> all(%(language_kinds)s::text[])
               or (languages is null or languages <@ %(able)s::text[])
                  and (w.tenant_able or languages <> '{auto}'))
        order by priority, job_id
        limit greatest(0, least(w.count, w.tenant_room, w.kind_room))
        for no key update skip locked
    ) j
), of_tenants_in_turn as (
    select *, row_number() over (partition by tenant_id order by turn, priority, job_id) as tenant_rank
    from locked
), ranked as (
    -- Only of those that their tenant has room for: what that refuses takes no room of its kind.
    select *, row_number() over (partition by kind order by turn, priority, job_id) as kind_rank
    from of_tenants_in_turn
    where tenant_room is null or tenant_rank <= tenant_room
), picked as materialized (
    select job_id, tenant_id, kind
    from ranked
    where kind_room is null or kind_rank <= kind_room
), of_kinds as (
    select kind, count(*) as jobs from picked group by kind
), of_tenants as (
    select tenant_id, count(*) as jobs from picked group by tenant_id
), spent as (
    update batchproc.kinds k
    set tokens = r.tokens - p.jobs, refilled_at = r.now
    from of_kinds p join kind_rooms r on r.kind = p.kind
    where k.kind = p.kind and r.rate is not null
), claimed as (
    update batchproc.processing_jobs j
    set state = 'running', attempt = j.attempt + 1, claim_id = c.claim_id, node_id = %(node_id)s,
        run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
    from unnest(array(select job_id from picked), array(select tenant_id from picked), %(claim_ids)s::uuid[])
         as c(job_id, tenant_id, claim_id)
    where j.job_id = c.job_id and j.tenant_id = c.tenant_id
    returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
              j.timeouts, j.node_losses, j.range_of
)
select c.*, null::bigint as room, null::float8 as seconds from claimed c
union all
-- Seconds until there is a token, where that is all that is lacking; a bucket that is locked is tried again soon.
select null, null, null, k.kind, null, null, null, null, null, null, null, null,
       least(k.slots, k.starts) - coalesce(p.jobs, 0),
       case when k.starts - coalesce(p.jobs, 0) <= 0 and (k.slots is null or k.slots > coalesce(p.jobs, 0))
            then coalesce((1 - k.tokens + coalesce(p.jobs, 0)) / k.rate, 0.1) end
from kind_rooms k
left join of_kinds p on p.kind = k.kind
where (k.slots is not null or k.starts is not null) and not k.paused
union all
select null, null, t.tenant_id, null, null, null, null, null, null, null, null, null,
       t.slots - coalesce(p.jobs, 0), null
from tenant_rooms t
left join of_tenants p on p.tenant_id = t.tenant_id
where t.slots is not null and not t.paused
