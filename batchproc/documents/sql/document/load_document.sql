select document_id, tenant_id, external_id, root, path, sha256, bytes, media_type, page_count, language, title,
       title_source, status, failure_code, flags, fields, current_revision, verified_at, created_at
from batchproc.documents
where document_id = %(document_id)s and (%(tenant_id)s::bigint is null or tenant_id = %(tenant_id)s)
