select j.job_id, t.slug as tenant, j.kind, j.lane, j.priority, j.state, j.attempt, j.max_attempts, j.crashes, j.run_at,
       j.document_id, j.failure_code, j.created_at, j.claimed_at, j.finished_at, j.campaign_id, j.result, j.args,
       j.timeouts, j.node_losses, j.unique_key, j.run_id, j.range_of, s.done, s.total
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
left join batchproc.job_signals s on s.job_id = j.job_id
where j.job_id = %s
