select job_id from batchproc.processing_jobs
where document_id = %(document_id)s and tenant_id = %(tenant_id)s and kind = %(kind)s
order by job_id desc
limit 1
