-- The claims of this node whose jobs somebody wants cancelled, with their counters as they are now.
select j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes, j.timeouts,
       j.node_losses, j.range_of
from batchproc.processing_jobs j
join batchproc.job_signals s on s.job_id = j.job_id and s.cancel_requested_at is not null
where j.state = 'running' and j.node_id = %s
order by j.job_id
