select j.job_id, j.tenant_id, t.slug, j.kind, j.attempt, j.document_id, j.args, t.settings
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
where j.job_id = %s and j.claim_id = %s
