select job_id, (args -> 'range' ->> 0)::int, (args -> 'range' ->> 1)::int, coalesce(failure_code, 'page_failed')
from batchproc.processing_jobs
where range_of = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'discarded'
  and jsonb_typeof(args -> 'range') = 'array'
order by job_id
