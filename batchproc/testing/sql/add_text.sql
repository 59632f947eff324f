-- A complete revision of an engine that never ran, as a test gives it.
with given as (
    insert into batchproc.ocr_revisions
        (tenant_id, document_id, state, source, engine, engine_version, data_hash, profile, languages, source_sha256,
         page_count, completed_at, seconds, words, characters, failed_pages)
    select d.tenant_id, d.document_id, 'complete', 'engine', 'given', '1', '', '{}', '{}', d.sha256,
           cardinality(%(texts)s::text[]), clock_timestamp(), 0, %(words)s, %(characters)s, 0
    from batchproc.documents d
    where d.tenant_id = %(tenant_id)s and d.document_id = %(document_id)s
    returning revision_id, tenant_id, document_id, page_count
), pages as (
    insert into batchproc.ocr_pages
        (revision_id, tenant_id, page, state, job_id, attempt, text, words, seconds, ended_at)
    select g.revision_id, g.tenant_id, p.page, 'text', 0, 1, p.text, p.words, 0, clock_timestamp()
    from given g
    cross join unnest(%(texts)s::text[], %(page_words)s::int[]) with ordinality as p(text, words, page)
)
update batchproc.documents d
set current_revision = g.revision_id, status = 'completed', page_count = g.page_count
from given g
where d.tenant_id = g.tenant_id and d.document_id = g.document_id
