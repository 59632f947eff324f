-- Jobs that wait end at once, without a failure code: nothing failed. What somebody holds at this moment is passed
-- over, for a later look.
with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
    order by job_id
    for no key update skip locked
), cancelled as (
    -- Arrays, not the CTE itself: the planner takes that for long and would read the whole table.
    update batchproc.processing_jobs j
    set state = 'cancelled', failure_code = null, finished_at = clock_timestamp()
    from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
    where j.job_id = l.job_id and j.tenant_id = l.tenant_id
    returning j.job_id
), unsignalled as (
    delete from batchproc.job_signals s using cancelled c where s.job_id = c.job_id
)
select job_id from cancelled
