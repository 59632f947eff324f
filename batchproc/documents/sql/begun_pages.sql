-- A claim works on one page at a time; one that an earlier claim began is not its own. Few revisions are open.
select c.claim_id, p.tenant_id, p.revision_id, p.page, p.starts
from unnest(%(claim_ids)s::uuid[], %(tenant_ids)s::bigint[]) as c(claim_id, tenant_id)
join batchproc.ocr_revisions r on r.tenant_id = c.tenant_id and r.state = 'open' and r.claim_id = c.claim_id
join batchproc.ocr_pages p
    on p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'started' and p.claim_id = c.claim_id
