select page, coalesce(text, '')
from batchproc.ocr_pages
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and page > %(after)s and state <> 'started'
order by page
limit %(limit)s
