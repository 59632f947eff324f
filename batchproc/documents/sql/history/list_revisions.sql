-- A revision that is not complete has no sums yet: what is done of it is counted. So is one of before there were sums.
select r.revision_id, r.state, r.revision_id is not distinct from d.current_revision as current, r.source, r.engine,
       r.engine_version, r.data_hash, r.languages, r.profile, r.source_sha256, r.page_count,
       case when r.failed_pages is null then p.done_pages else r.page_count end as done_pages,
       coalesce(r.failed_pages, p.failed_pages) as failed_pages, coalesce(r.words, p.words) as words,
       coalesce(r.characters, p.characters) as characters,
       coalesce(r.confidence, p.confidence) as confidence, coalesce(r.seconds, p.seconds) as seconds,
       r.node_id, r.job_id, r.created_at, r.completed_at, r.verdict, r.restored_at, r.restored_by,
       r.kept_versions
from batchproc.ocr_revisions r
join batchproc.documents d using (tenant_id, document_id)
cross join lateral (
    select count(*) filter (where o.state <> 'started') as done_pages,
           count(*) filter (where o.state = 'failed') as failed_pages, coalesce(sum(o.words), 0) as words,
           coalesce(sum(length(o.text)), 0) as characters,
           sum(o.confidence * o.words) filter (where o.state = 'ocr' and r.state = 'complete')
               / nullif(sum(o.words) filter (where o.state = 'ocr' and o.confidence is not null), 0) as confidence,
           coalesce(sum(o.seconds) filter (where o.kept_from is null), 0) as seconds
    from batchproc.ocr_pages o
    where o.revision_id = r.revision_id and o.tenant_id = r.tenant_id and r.failed_pages is null
) p
where r.tenant_id = %(tenant_id)s and r.document_id = %(document_id)s and r.revision_id > %(after)s
order by r.revision_id
limit %(limit)s
