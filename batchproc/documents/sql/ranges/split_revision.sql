-- findings: what the original is like, for the job that joins the ranges.
update batchproc.ocr_revisions
set ranges_left = %(ranges)s, findings = %(findings)s
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
