-- One statement claims for all chosen queues; they are distinct, since a statement does not skip its own locks.
-- Queues with a limit give nothing here, also when it was set a moment ago: they are for claim_limited.sql.
-- What is not after a queue's place is passed over unread (see core/floors.py): where an old snapshot keeps the index
-- entries of all jobs that were claimed before, each claim would read every one of them.
-- Of kinds that need languages it takes what this node has the languages for: as core/languages.py says it.
with wanted as (
    select *
    from unnest(%(lanes)s::smallint[], %(tenants)s::bigint[], %(kinds)s::text[], %(counts)s::int[],
                %(after_priorities)s::smallint[], %(after_jobs)s::bigint[])
         as w(lane, tenant_id, kind, count, after_priority, after_job)
), picked as materialized (
    select j.job_id, w.tenant_id
    from wanted w
    join batchproc.tenants t on t.tenant_id = w.tenant_id and not t.paused and t.max_running is null
    cross join lateral (
        -- Whether this node has the languages of the tenant, or where that names none, of its own settings.
        select coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
               and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]')) as able
    ) tenants_languages
    cross join lateral (
        select job_id
        from batchproc.processing_jobs
        where state = 'available' and lane = w.lane and tenant_id = w.tenant_id and kind = w.kind
          and (priority, job_id) > (w.after_priority, w.after_job)
          and (w.kind <> all(%(language_kinds)s::text[])
               or (languages is null or languages <@ %(able)s::text[])
                  and (tenants_languages.able or languages <> '{auto}'))
        order by priority, job_id
        limit w.count
        for no key update skip locked
    ) j
    where not exists (select from batchproc.kinds k where k.kind = w.kind
                        and (k.paused or coalesce(k.max_running, k.declared_limit) is not null
                             or coalesce(k.rate, k.declared_rate) is not null))
)
-- Arrays, not the CTE itself: the planner takes it for a tenth of the queue and would read the whole table.
update batchproc.processing_jobs j
set state = 'running', attempt = j.attempt + 1, claim_id = c.claim_id, node_id = %(node_id)s,
    run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
from unnest(array(select job_id from picked), array(select tenant_id from picked), %(claim_ids)s::uuid[])
     as c(job_id, tenant_id, claim_id)
where j.job_id = c.job_id and j.tenant_id = c.tenant_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses, j.range_of
