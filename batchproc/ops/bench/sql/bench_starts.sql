-- Every job in the order in which it was started: whose it is, and when.
select (j.args ->> 'owner')::integer as owner, extract(epoch from a.started_at)::double precision as started
from batchproc.processing_jobs j
join batchproc.job_attempts a using (job_id)
where j.kind = %(kind)s and a.outcome = 'completed'
order by a.started_at, j.job_id
