-- Languages as in claim.sql.
with picked as (
    select j.job_id
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id
    where j.job_id = %(job_id)s and j.state in ('available', 'scheduled') and j.kind = any(%(kinds)s)
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
where j.job_id = p.job_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses, j.range_of
