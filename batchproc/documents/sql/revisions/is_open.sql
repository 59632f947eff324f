select revision_id from batchproc.ocr_revisions
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
