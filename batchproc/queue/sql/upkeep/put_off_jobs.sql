-- As if each had been tried in this run and had found its storage gone.
with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state = 'available'
    order by job_id
    for no key update skip locked
)
update batchproc.processing_jobs j
set state = 'scheduled', run_at = clock_timestamp() + make_interval(secs => %(seconds)s), run_id = %(run_id)s,
    claimed_at = clock_timestamp(), failure_code = 'storage_unavailable'
from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.job_id
