select document_id from batchproc.documents
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
for no key update
