update batchproc.ocr_revisions
set state = 'complete', completed_at = clock_timestamp()
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
