-- When each job's handler began, by its own word.
select job_id, (result ->> 'monotonic')::double precision
from batchproc.processing_jobs
where kind = %(kind)s and state = 'completed'
