with locked as (
    select j.job_id, j.tenant_id
    from batchproc.processing_jobs j
    join batchproc.campaigns c on c.campaign_id = j.campaign_id and c.paused
    where j.job_id = any(%(job_ids)s) and j.state in ('scheduled', 'available')
    order by j.job_id
    for no key update of j skip locked
)
update batchproc.processing_jobs j
set state = 'held'
from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.job_id
