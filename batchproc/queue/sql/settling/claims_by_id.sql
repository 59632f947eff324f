select j.*
from unnest(%(job_ids)s::bigint[], %(claim_ids)s::uuid[]) as c(job_id, claim_id)
cross join lateral (
    select job_id, claim_id, tenant_id, kind, lane, priority, attempt, max_attempts, crashes, timeouts, node_losses,
           range_of
    from batchproc.processing_jobs
    where job_id = c.job_id and claim_id = c.claim_id
    limit 1
) j
