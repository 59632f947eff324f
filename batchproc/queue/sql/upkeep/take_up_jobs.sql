with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state = 'scheduled' and failure_code = 'storage_unavailable'
    order by job_id
    for no key update skip locked
)
update batchproc.processing_jobs j
set state = 'available', run_at = clock_timestamp()
from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.lane, j.tenant_id, j.kind
