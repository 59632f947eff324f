-- From the first claim to the last settle of the given jobs' attempts, by the database's clock.
select count(*) filter (where a.outcome = 'completed') as completed,
       extract(epoch from max(a.ended_at) - min(a.started_at))::double precision as seconds
from batchproc.processing_jobs j
join batchproc.job_attempts a using (job_id)
where j.kind = %(kind)s and j.priority = %(priority)s
