update batchproc.ocr_revisions
set verdict = %(verdict)s
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
