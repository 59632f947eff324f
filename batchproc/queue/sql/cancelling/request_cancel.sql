-- Touches no job's row but for the foreign key's look at it, which passes a handler's lock (see lock_claim.sql). The
-- first request counts.
insert into batchproc.job_signals as s (job_id, tenant_id, cancel_requested_at)
select job_id, tenant_id, clock_timestamp()
from batchproc.processing_jobs
where job_id = any(%(job_ids)s) and state = 'running'
order by job_id
on conflict (job_id) do update
set cancel_requested_at = coalesce(s.cancel_requested_at, excluded.cancel_requested_at)
returning job_id
