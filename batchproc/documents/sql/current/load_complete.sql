-- Of any document of the tenant, so that a mistaken id can be told from one that was pruned. As load_standing.sql has it
-- without sums.
select r.document_id, r.state, r.page_count,
       coalesce(r.failed_pages,
                (select count(*) from batchproc.ocr_pages p
                 where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'failed')) as failed_pages
from batchproc.ocr_revisions r
where r.revision_id = %(revision_id)s and r.tenant_id = %(tenant_id)s
