update batchproc.documents
set language = %(language)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
