-- Confidence and version are those of the current revision; a document without one has neither. Versions are also those
-- of the pages that were taken over into it. One without sums was completed before there were any. A
-- recognised page without a word has no confidence, and is read worse than any.
select d.document_id, d.tenant_id, d.status, d.failure_code, d.current_revision is not null as has_text,
       coalesce(r.source = 'person', false) as by_person
from batchproc.documents d
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where d.document_id > %(after)s
  and (%(tenant_id)s::bigint is null or d.tenant_id = %(tenant_id)s)
  and (%(document_ids)s::bigint[] is null or d.document_id = any (%(document_ids)s))
  and (%(statuses)s::text[] is null or d.status = any (%(statuses)s))
  and (%(failure_codes)s::text[] is null or d.failure_code = any (%(failure_codes)s))
  and (%(below_confidence)s::real is null or coalesce(r.confidence, (
           select sum(p.confidence * p.words) / nullif(sum(p.words) filter (where p.confidence is not null), 0)
           from batchproc.ocr_pages p
           where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'ocr'
             and r.failed_pages is null)) < %(below_confidence)s
       or (r.source = 'engine' and exists (
           select from batchproc.ocr_pages p
           where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'ocr'
             and p.words = 0)))
  and (%(engine_versions)s::text[] is null or r.engine_version = any (%(engine_versions)s)
       or r.kept_versions && %(engine_versions)s::text[])
order by d.document_id
limit %(limit)s
