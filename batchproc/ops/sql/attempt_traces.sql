-- What a span tells of a job that its claim does not: whose span it belongs below, and whose job it is.
select j.job_id, j.traceparent, t.slug
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
where j.job_id = any(%s)
