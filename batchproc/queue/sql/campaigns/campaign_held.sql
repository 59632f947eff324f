-- The next held jobs of a campaign before the last one seen. The newest come first: of several with one unique key it
-- is the newest that goes on.
select job_id
from batchproc.processing_jobs
where campaign_id = %(campaign_id)s and state = 'held' and job_id < %(before)s
order by job_id desc
limit %(limit)s
