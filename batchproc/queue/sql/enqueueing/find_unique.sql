select job_id from batchproc.processing_jobs
where tenant_id = %(tenant_id)s and kind = %(kind)s and unique_key = %(unique_key)s
  and (state in ('scheduled', 'available') or (state = 'running' and unique_while_running))
order by state = 'running', job_id
limit 1
