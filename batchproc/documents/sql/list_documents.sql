select d.document_id, t.slug as tenant, d.external_id, d.root, d.path, d.sha256, d.status, d.failure_code, d.title,
       d.title_source, d.language, d.page_count, d.flags,
       array(select distinct g.tag from batchproc.document_tags g
             where g.tenant_id = d.tenant_id and g.document_id = d.document_id order by g.tag) as tags
from batchproc.documents d
join batchproc.tenants t using (tenant_id)
where d.document_id > %(after)s
  and (%(document_id)s::bigint is null or d.document_id = %(document_id)s)
  and (%(tenant_id)s::bigint is null or d.tenant_id = %(tenant_id)s)
  and (%(status)s::text is null or d.status = %(status)s)
order by d.document_id
limit %(limit)s
