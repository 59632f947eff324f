-- After the document's row was locked: a statement that waits for the lock itself would still join the revision that
-- was current before. One that was completed before there were sums has none: they are those of its pages.
select r.revision_id, r.engine, r.engine_version, r.data_hash, r.profile,
       coalesce(r.confidence, p.confidence) as confidence, coalesce(r.characters, p.characters) as characters,
       coalesce(r.failed_pages, p.failed_pages) as failed_pages, r.page_count, r.source = 'person' as by_person,
       r.kept_versions is not null as mixed
from batchproc.documents d
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
cross join lateral (
    select coalesce(sum(length(o.text)), 0) as characters, count(*) filter (where o.state = 'failed') as failed_pages,
           sum(o.confidence * o.words) filter (where o.state = 'ocr')
               / nullif(sum(o.words) filter (where o.state = 'ocr' and o.confidence is not null), 0) as confidence
    from batchproc.ocr_pages o
    where o.revision_id = r.revision_id and o.tenant_id = r.tenant_id and r.failed_pages is null
) p
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
