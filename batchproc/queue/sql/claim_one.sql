with picked as (
    select job_id from batchproc.processing_jobs
    where job_id = %(job_id)s and state in ('available', 'scheduled') and kind = any(%(kinds)s)
    for no key update skip locked
)
update batchproc.processing_jobs j
set state = 'running', attempt = j.attempt + 1, claim_id = %(claim_id)s, node_id = %(node_id)s,
    run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
from picked p
where j.job_id = p.job_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses
