-- The jobs that have been due for longest, whoever's they are. Read without locks: promote_jobs.sql looks again.
select job_id
from batchproc.processing_jobs
-- The time as a subquery: a volatile function itself is no bound for an index scan.
where state = 'scheduled' and run_at <= (select clock_timestamp()) and job_id <> all(%(skip)s::bigint[])
order by run_at, job_id
limit %(limit)s
