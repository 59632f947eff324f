-- Whoever counts the ranges waits for this transaction.
select ranges_left from batchproc.ocr_revisions
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
for no key update
