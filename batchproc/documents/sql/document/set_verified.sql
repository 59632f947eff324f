update batchproc.documents
set verified_at = clock_timestamp()
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
