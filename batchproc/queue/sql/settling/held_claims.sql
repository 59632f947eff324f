-- What this node holds by the database's word, and the counters that a handler's checkpoint may have set back.
select job_id, claim_id, tenant_id, kind, lane, priority, attempt, max_attempts, crashes, timeouts, node_losses,
       range_of
from batchproc.processing_jobs
where state = 'running' and node_id = %s
order by job_id
