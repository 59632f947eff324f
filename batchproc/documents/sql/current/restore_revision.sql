update batchproc.ocr_revisions
set verdict = %(verdict)s, restored_at = clock_timestamp(), restored_by = %(restored_by)s
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
