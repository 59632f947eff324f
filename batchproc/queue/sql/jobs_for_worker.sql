-- As job_for_worker.sql, for a bundle. That one stays: its plan is kept, one with arrays is made anew each time.
select j.job_id, j.tenant_id, t.slug, j.kind, j.attempt, j.document_id, j.args, t.settings
from unnest(%s::bigint[], %s::uuid[]) as w(job_id, claim_id)
join batchproc.processing_jobs j on j.job_id = w.job_id and j.claim_id = w.claim_id
join batchproc.tenants t using (tenant_id)
