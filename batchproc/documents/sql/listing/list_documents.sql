-- confidence is that of the current revision, as list_revisions.sql has it.
select d.document_id, t.slug as tenant, d.external_id, d.root, d.path, d.sha256, d.status, d.failure_code, d.title,
       d.title_source, d.language, d.page_count, d.flags,
       coalesce(r.confidence, (
           select sum(p.confidence * p.words) / nullif(sum(p.words) filter (where p.confidence is not null), 0)
           from batchproc.ocr_pages p
           where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'ocr'
             and r.failed_pages is null)) as confidence,
       array(select distinct g.tag from batchproc.document_tags g
             where g.tenant_id = d.tenant_id and g.document_id = d.document_id order by g.tag) as tags
from batchproc.documents d
join batchproc.tenants t using (tenant_id)
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where d.document_id > %(after)s
  and (%(document_id)s::bigint is null or d.document_id = %(document_id)s)
  and (%(tenant_id)s::bigint is null or d.tenant_id = %(tenant_id)s)
  and (%(status)s::text is null or d.status = %(status)s)
  and (%(failure_code)s::text is null or d.failure_code = %(failure_code)s)
order by d.document_id
limit %(limit)s
