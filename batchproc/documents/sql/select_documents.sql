-- Confidence and version are those of the current revision; a document without one has neither.
select d.document_id, d.tenant_id, d.status, d.failure_code, d.current_revision is not null as has_text,
       coalesce(r.source = 'person', false) as by_person
from batchproc.documents d
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where d.document_id > %(after)s
  and (%(tenant_id)s::bigint is null or d.tenant_id = %(tenant_id)s)
  and (%(document_ids)s::bigint[] is null or d.document_id = any (%(document_ids)s))
  and (%(statuses)s::text[] is null or d.status = any (%(statuses)s))
  and (%(below_confidence)s::real is null or r.confidence < %(below_confidence)s)
  and (%(engine_versions)s::text[] is null or r.engine_version = any (%(engine_versions)s))
order by d.document_id
limit %(limit)s
