update batchproc.ocr_revisions
set state = 'abandoned'
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
  and claim_id is not distinct from %(claim_id)s
