select distinct language
from batchproc.documents
where document_id = any(%(document_ids)s) and (%(tenant_id)s::bigint is null or tenant_id = %(tenant_id)s)
