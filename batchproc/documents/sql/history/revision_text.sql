select page, coalesce(text, '') as text
from batchproc.ocr_pages
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state <> 'started'
order by page
