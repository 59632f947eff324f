select coalesce(p.text, '') as text
from batchproc.documents d
join batchproc.ocr_pages p on p.revision_id = d.current_revision and p.tenant_id = d.tenant_id
where d.document_id = %(document_id)s and (%(tenant_id)s::bigint is null or d.tenant_id = %(tenant_id)s)
order by p.page
