-- As job_for_worker.sql, for a bundle. That one stays: its plan is kept, one with arrays is made anew each time.
-- One by one by their ids: a planner that knows little of the table would read all of it for so many.
select j.job_id, j.tenant_id, t.slug, j.kind, j.attempt, j.document_id, j.args, t.settings
from unnest(%s::bigint[], %s::uuid[]) as w(job_id, claim_id)
cross join lateral (
    select * from batchproc.processing_jobs r where r.job_id = w.job_id and r.claim_id = w.claim_id limit 1
) j
join batchproc.tenants t using (tenant_id)
