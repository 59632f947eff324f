-- As claim.sql, for queues whose tenant or kind has a limit. Runs after the advisory lock of the limits, which
-- is a statement of its own, so that this snapshot sees every claim made before it.
with wanted as (
    select *
    from unnest(%(lanes)s::smallint[], %(tenants)s::bigint[], %(kinds)s::text[], %(counts)s::int[])
         with ordinality as w(lane, tenant_id, kind, count, turn)
), roomy as (
    select w.*, tenants_languages.able as tenant_able,
           t.max_running - (select count(*) from batchproc.processing_jobs r
                            where r.state = 'running' and r.tenant_id = w.tenant_id) as tenant_room,
           coalesce(k.max_running, k.declared_limit)
               - (select count(*) from batchproc.processing_jobs r
                  where r.state = 'running' and r.kind = w.kind) as kind_room
    from wanted w
    join batchproc.tenants t on t.tenant_id = w.tenant_id and not t.paused
    cross join lateral (
        -- Whether this node has the languages of the tenant, or where that names none, of its own settings.
        select coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
               and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]')) as able
    ) tenants_languages
    left join batchproc.kinds k on k.kind = w.kind
    where k.paused is not true
), locked as (
    select w.turn, w.tenant_id, w.kind, w.tenant_room, w.kind_room, j.priority, j.job_id
    from roomy w
    cross join lateral (
        select priority, job_id
        from batchproc.processing_jobs
        where state = 'available' and lane = w.lane and tenant_id = w.tenant_id and kind = w.kind
          and (w.kind <> all(%(language_kinds)s::text[])
               or (languages is null or languages <@ %(able)s::text[])
                  and (w.tenant_able or languages <> '{auto}'))
        order by priority, job_id
        limit greatest(0, least(w.count, w.tenant_room, w.kind_room))
        for no key update skip locked
    ) j
), ranked as (
    select *,
           row_number() over (partition by tenant_id order by turn, priority, job_id) as tenant_rank,
           row_number() over (partition by kind order by turn, priority, job_id) as kind_rank
    from locked
), picked as materialized (
    select job_id, tenant_id
    from ranked
    where (tenant_room is null or tenant_rank <= tenant_room) and (kind_room is null or kind_rank <= kind_room)
)
update batchproc.processing_jobs j
set state = 'running', attempt = j.attempt + 1, claim_id = c.claim_id, node_id = %(node_id)s,
    run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
from unnest(array(select job_id from picked), array(select tenant_id from picked), %(claim_ids)s::uuid[])
     as c(job_id, tenant_id, claim_id)
where j.job_id = c.job_id and j.tenant_id = c.tenant_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses
