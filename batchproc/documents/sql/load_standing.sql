-- After the document's row was locked: a statement that waits for the lock itself would still join the revision that
-- was current before. A revision that came with its text given has no sums.
select r.revision_id, r.engine, r.engine_version, r.data_hash, r.profile, r.confidence,
       coalesce(r.characters, 0) as characters, coalesce(r.failed_pages, 0) as failed_pages, r.page_count,
       r.source = 'person' as by_person
from batchproc.documents d
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
