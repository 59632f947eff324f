delete from batchproc.document_tags
where document_id = %(document_id)s and tenant_id = %(tenant_id)s and source = %(source)s
  and not tag = any (%(tags)s::text[])
