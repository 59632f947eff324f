-- kept_from names the revision that a page was really read in, however often it was taken over since.
insert into batchproc.ocr_pages
    (revision_id, tenant_id, page, state, starts, job_id, attempt, text, confidence, words, rotation, dpi, seconds,
     failure_code, started_at, ended_at, skew, dpi_estimated, languages, engine_calls, kept_from)
select target.revision_id, p.tenant_id, p.page, p.state, p.starts, p.job_id, p.attempt, p.text, p.confidence, p.words,
       p.rotation, p.dpi, p.seconds, p.failure_code, p.started_at, p.ended_at, p.skew, p.dpi_estimated, p.languages,
       p.engine_calls, coalesce(p.kept_from, p.revision_id)
from batchproc.ocr_revisions target
join batchproc.ocr_revisions source
    on source.tenant_id = target.tenant_id and source.document_id = target.document_id
    and source.revision_id = %(from_revision_id)s
join batchproc.ocr_pages p on p.revision_id = source.revision_id and p.tenant_id = source.tenant_id
where target.revision_id = %(revision_id)s and target.tenant_id = %(tenant_id)s and target.state = 'open'
  and p.page <= target.page_count
  and p.state <> 'started' and not (%(except_failed)s and p.state = 'failed')
on conflict (revision_id, page) do nothing
