select revision_id from batchproc.ocr_revisions
where document_id = %(document_id)s and tenant_id = %(tenant_id)s and revision_id > %(revision_id)s
  and state in ('open', 'complete') and not pilot
limit 1
