-- The next jobs of a campaign after the last one seen that have not come to an end.
-- Each state by its own index, in the order of the ids; those that run are few.
select job_id
from (
    (select job_id from batchproc.processing_jobs
     where campaign_id = %(campaign_id)s and state in ('scheduled', 'available') and job_id > %(after)s
     order by job_id
     limit %(limit)s)
    union all
    (select job_id from batchproc.processing_jobs
     where campaign_id = %(campaign_id)s and state = 'held' and job_id > %(after)s
     order by job_id
     limit %(limit)s)
    union all
    select job_id from batchproc.processing_jobs
    where campaign_id = %(campaign_id)s and state = 'running' and job_id > %(after)s
) unfinished
order by job_id
limit %(limit)s
