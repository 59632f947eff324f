update batchproc.documents
set title = %(title)s, title_source = %(source)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
  and (%(source)s = 'person' or coalesce(title_source, '') not in ('person', 'manifest'))
