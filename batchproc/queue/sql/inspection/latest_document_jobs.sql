-- A pilot is not meant: nothing of the document comes of it.
select document_id, max(job_id)
from batchproc.processing_jobs
where document_id = any (%(document_ids)s) and tenant_id = %(tenant_id)s and kind = %(kind)s
  and args -> 'pilot' is distinct from 'true'::jsonb
group by document_id
