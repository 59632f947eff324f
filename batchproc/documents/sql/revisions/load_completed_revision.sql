select revision_id, engine, engine_version, data_hash, profile, languages, source_sha256, page_count, job_id, claim_id
from batchproc.ocr_revisions
where tenant_id = %(tenant_id)s and document_id = %(document_id)s and state = 'complete' and job_id = %(job_id)s
order by revision_id desc
limit 1
