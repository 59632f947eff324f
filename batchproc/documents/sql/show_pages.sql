select page, state, confidence, words, rotation, seconds, failure_code
from batchproc.ocr_pages
where revision_id = %(revision_id)s
order by page
