-- How many of these jobs wait, but are locked by somebody: a claim passes over them, and proves nothing by that.
with lockable as materialized (
    select job_id from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state = 'available'
    order by job_id
    for no key update skip locked
)
select count(*) from batchproc.processing_jobs j
where j.job_id = any(%(job_ids)s) and j.state = 'available'
  and not exists (select from lockable l where l.job_id = j.job_id)
