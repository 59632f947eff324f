-- The next waiting jobs of a campaign after the last one seen, for a pause to hold.
select job_id
from batchproc.processing_jobs
where campaign_id = %(campaign_id)s and state in ('scheduled', 'available') and job_id > %(after)s
order by job_id
limit %(limit)s
