-- Whether somebody retried a job after it had come to its end in an attempt. A retry forgets the failure code, which a job
-- that is tried again by itself still shows. What a stop or a lost node ended says nothing.
select last.outcome = 'cancelled' or last.failure_code is distinct from j.failure_code
from batchproc.processing_jobs j
cross join lateral (
    select a.outcome, a.failure_code
    from batchproc.job_attempts a
    where a.job_id = j.job_id and a.outcome in ('failed', 'cancelled')
      and a.error_class is distinct from 'lease_expired'
    order by a.ended_at desc
    limit 1
) last
where j.job_id = %(job_id)s and j.tenant_id = %(tenant_id)s
