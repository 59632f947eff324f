-- Jobs that wait get another priority or lane; what has both already is not written. What somebody holds at this moment
-- is passed over, for a later look.
with locked as (
    select job_id, tenant_id, coalesce(%(priority)s::smallint, priority) <> priority
                              or coalesce(%(lane)s::smallint, lane) <> lane as differs
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
    order by job_id
    for no key update skip locked
), changed as (
    update batchproc.processing_jobs j
    set priority = coalesce(%(priority)s::smallint, j.priority), lane = coalesce(%(lane)s::smallint, j.lane)
    from unnest(array(select job_id from locked where differs), array(select tenant_id from locked where differs))
         as l(job_id, tenant_id)
    where j.job_id = l.job_id and j.tenant_id = l.tenant_id
    returning j.job_id, j.state, j.lane, j.tenant_id, j.kind, j.priority
)
select l.job_id, c.state, c.lane, c.tenant_id, c.kind, c.priority
from locked l
left join changed c using (job_id)
