-- As claim_one.sql, by the rules of claim_limited.sql: runs after the advisory lock of the limits. It asks for no token:
-- the job was claimed a moment ago, which took one, and given back.
with picked as materialized (
    select j.job_id, j.tenant_id, j.kind
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
    left join batchproc.kinds k on k.kind = j.kind
    where j.job_id = %(job_id)s and j.state = 'available' and j.kind = any(%(kinds)s) and k.paused is not true
      and (t.max_running is null
           or t.max_running > (select count(*) from batchproc.processing_jobs r
                               where r.state = 'running' and r.tenant_id = j.tenant_id))
      and (coalesce(k.max_running, k.declared_limit) is null
           or coalesce(k.max_running, k.declared_limit) > (select count(*) from batchproc.processing_jobs r
                                                           where r.state = 'running' and r.kind = j.kind))
      and (j.kind <> all(%(language_kinds)s::text[])
           or (j.languages is null or j.languages <@ %(able)s::text[])
              and (j.languages <> '{auto}'
                   or coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
                      and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]'))))
    for no key update of j skip locked
)
update batchproc.processing_jobs j
set state = 'running', attempt = j.attempt + 1, claim_id = %(claim_id)s, node_id = %(node_id)s,
    run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
from picked p
where j.job_id = p.job_id and j.tenant_id = p.tenant_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses, j.range_of
