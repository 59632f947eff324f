select page, state, starts, coalesce(words, 0) as words, coalesce(seconds, 0) as seconds, failure_code
from batchproc.ocr_pages
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
order by page
