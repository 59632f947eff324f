select page, state, confidence, words, rotation, seconds, failure_code, skew, dpi, dpi_estimated, languages,
       engine_calls, kept_from
from batchproc.ocr_pages
where revision_id = %(revision_id)s
order by page
