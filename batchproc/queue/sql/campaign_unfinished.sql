-- The next jobs of a campaign after the last one seen that have not come to an end.
select job_id
from batchproc.processing_jobs
where campaign_id = %(campaign_id)s and state in ('scheduled', 'available', 'held', 'running') and job_id > %(after)s
order by job_id
limit %(limit)s
