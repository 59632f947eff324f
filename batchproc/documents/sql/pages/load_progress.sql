select page, state, starts, coalesce(words, 0) as words,
       case when kept_from is null then coalesce(seconds, 0) else 0 end as seconds, failure_code, kept_from
from batchproc.ocr_pages
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
order by page
