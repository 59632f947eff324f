-- A text that a person gives is complete at once. Its pages are no job's.
with typed as (
    insert into batchproc.ocr_revisions
        (tenant_id, document_id, state, source, engine, engine_version, data_hash, profile, languages, source_sha256,
         page_count, completed_at, seconds, words, characters, failed_pages, verdict, restored_at, restored_by)
    select %(tenant_id)s, %(document_id)s, 'complete', 'person', 'person', '', '', '{}', '{}', %(source_sha256)s,
           cardinality(%(texts)s::text[]), clock_timestamp(), 0, %(words)s, %(characters)s, 0, %(verdict)s,
           clock_timestamp(), %(typed_by)s
    returning revision_id, tenant_id
), pages as (
    insert into batchproc.ocr_pages
        (revision_id, tenant_id, page, state, job_id, attempt, text, words, seconds, ended_at)
    select t.revision_id, t.tenant_id, p.page, 'text', 0, 0, p.text, p.words, 0, clock_timestamp()
    from typed t
    cross join unnest(%(texts)s::text[], %(page_words)s::int[]) with ordinality as p(text, words, page)
)
select revision_id from typed
