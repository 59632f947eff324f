-- Finished jobs from the oldest on, after the last one seen, up to a time that the first look has set.
select job_id, finished_at
from batchproc.processing_jobs
where state in ('completed', 'discarded', 'cancelled') and finished_at < %(until)s
  and (finished_at, job_id) > (%(after_time)s::timestamptz, %(after_id)s::bigint)
order by finished_at, job_id
limit %(limit)s
