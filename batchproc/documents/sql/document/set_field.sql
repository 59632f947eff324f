update batchproc.documents
set fields = fields || %(fields)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
