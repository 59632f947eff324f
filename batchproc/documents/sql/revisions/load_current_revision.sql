select r.revision_id, r.engine, r.engine_version, r.data_hash, r.profile, r.languages, r.source_sha256, r.page_count,
       r.job_id, r.claim_id
from batchproc.documents d
join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
