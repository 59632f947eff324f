update batchproc.ocr_revisions
set job_id = %(job_id)s, claim_id = %(new_claim_id)s, pilot = %(pilot)s, ranges_left = null
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
  and claim_id is not distinct from %(claim_id)s
