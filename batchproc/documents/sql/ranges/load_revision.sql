select revision_id, document_id, state, ranges_left, findings, engine, engine_version, data_hash, profile, languages,
       source_sha256, page_count, job_id, claim_id
from batchproc.ocr_revisions
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
