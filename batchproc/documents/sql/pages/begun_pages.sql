-- A claim works on one page at a time; one that an earlier claim began is not its own. By document: revisions that jobs
-- left open may be many. A document in the args goes before the job's own, as the handler has it. A range of pages
-- names its revision itself.
select c.claim_id, p.tenant_id, p.revision_id, p.page, p.starts
from unnest(%(claim_ids)s::uuid[], %(job_ids)s::bigint[], %(tenant_ids)s::bigint[])
     as c(claim_id, job_id, tenant_id)
join batchproc.processing_jobs j on j.job_id = c.job_id and j.tenant_id = c.tenant_id
join batchproc.ocr_revisions r
    on r.tenant_id = c.tenant_id and r.state = 'open'
    and case when j.range_of is null then r.claim_id = c.claim_id else r.revision_id = j.range_of end
    and r.document_id = case when j.args ->> 'document_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'document_id')::bigint
                             else j.document_id end
join batchproc.ocr_pages p
    on p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'started' and p.claim_id = c.claim_id
