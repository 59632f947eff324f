update batchproc.documents
set status = %(status)s, failure_code = %(failure_code)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
