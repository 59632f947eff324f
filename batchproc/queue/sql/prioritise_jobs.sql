-- Jobs that wait get another priority or lane; what has both already is told as it is. What somebody holds at this
-- moment is passed over, for a later look.
with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
    order by job_id
    for no key update skip locked
)
update batchproc.processing_jobs j
set priority = coalesce(%(priority)s::smallint, j.priority), lane = coalesce(%(lane)s::smallint, j.lane)
from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.job_id, j.state, j.lane, j.tenant_id, j.kind, j.priority
