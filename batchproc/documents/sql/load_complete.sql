-- Of any document of the tenant, so that a mistaken id can be told from one that was pruned.
select document_id, state, coalesce(failed_pages, 0) as failed_pages, page_count
from batchproc.ocr_revisions
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
