-- Confidence, version, languages and language data are those of the current revision; a document without one has none.
-- Versions are also those of the pages that were taken over into it. One without sums was completed before there were
-- any. A recognised page without a word has no confidence, and is read worse than any. ``pages`` is null where nobody
-- knows; ``failed_pages`` are those of the current revision.
select d.document_id, d.tenant_id, d.status, d.failure_code, d.current_revision is not null as has_text,
       coalesce(r.source = 'person', false) as by_person, d.page_count as pages,
       case when d.status = 'partial' then coalesce(r.failed_pages, (
           select count(*) from batchproc.ocr_pages p
           where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state = 'failed')) end
           as failed_pages,
       exists (select from batchproc.ocr_revisions o
               where o.tenant_id = d.tenant_id and o.document_id = d.document_id and o.state = 'open'
                 and not o.pilot) as is_begun
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
  and (%(data_hashes)s::text[] is null or r.data_hash = any (%(data_hashes)s))
  and (%(languages)s::text[] is null or case when r.revision_id is null then string_to_array(d.language, '+')
                                             else r.languages end && %(languages)s::text[])
  and (%(older_than)s::interval is null or r.completed_at < statement_timestamp() - %(older_than)s::interval)
  and (%(imported_after)s::timestamptz is null or d.created_at >= %(imported_after)s)
  and (%(imported_before)s::timestamptz is null or d.created_at < %(imported_before)s)
  and (%(min_bytes)s::bigint is null or d.bytes >= %(min_bytes)s)
  and (%(max_bytes)s::bigint is null or d.bytes <= %(max_bytes)s)
  and (%(min_pages)s::integer is null or d.page_count >= %(min_pages)s)
  and (%(max_pages)s::integer is null or d.page_count <= %(max_pages)s)
  and (%(tags)s::text[] is null or exists (
           select from batchproc.document_tags g
           where g.tenant_id = d.tenant_id and g.document_id = d.document_id and g.tag = any (%(tags)s)))
  -- Of tenants and the rules that hold for each of them now.
  and (%(rules_of)s::bigint[] is null or d.rules_version is distinct from (
           select v.version from unnest(%(rules_of)s::bigint[], %(rules_versions)s::text[]) v(tenant_id, version)
           where v.tenant_id = d.tenant_id))
  -- Any path of it; a root may end with a slash.
  and (%(path_like)s::bytea[] is null or exists (
           select from batchproc.document_paths f
           where f.tenant_id = d.tenant_id and f.document_id = d.document_id
             and (rtrim(f.root, '\x2f'::bytea) || '\x2f'::bytea || f.path) like any (%(path_like)s::bytea[])))
order by d.document_id
limit %(limit)s
