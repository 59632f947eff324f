-- kept_from names the revision that a page was really read in, however often it was taken over since. That one may be
-- pruned, so what was read by other means than the target's own is told by the target itself: kept_versions.
with pair as (
    select target.revision_id, target.tenant_id, source.revision_id as from_revision_id, target.page_count,
           source.engine_version, source.kept_versions,
           (source.engine, source.engine_version, source.data_hash, source.profile)
               is distinct from (target.engine, target.engine_version, target.data_hash, target.profile) as other_means
    from batchproc.ocr_revisions target
    join batchproc.ocr_revisions source
        on source.tenant_id = target.tenant_id and source.document_id = target.document_id
        and source.revision_id = %(from_revision_id)s
    where target.revision_id = %(revision_id)s and target.tenant_id = %(tenant_id)s and target.state = 'open'
), kept as (
    insert into batchproc.ocr_pages
        (revision_id, tenant_id, page, state, starts, job_id, attempt, text, confidence, words, rotation, dpi, seconds,
         failure_code, started_at, ended_at, skew, dpi_estimated, languages, engine_calls, kept_from)
    select pair.revision_id, p.tenant_id, p.page, p.state, p.starts, p.job_id, p.attempt, p.text, p.confidence, p.words,
           p.rotation, p.dpi, p.seconds, p.failure_code, p.started_at, p.ended_at, p.skew, p.dpi_estimated, p.languages,
           p.engine_calls, coalesce(p.kept_from, p.revision_id)
    from pair
    join batchproc.ocr_pages p on p.revision_id = pair.from_revision_id and p.tenant_id = pair.tenant_id
    where p.page <= pair.page_count and p.state not in ('started', 'failed')
    on conflict (revision_id, page) do nothing
    returning page
), marked as (
    update batchproc.ocr_revisions r
    set kept_versions = array(
            select unnest(r.kept_versions)
            union
            select unnest(pair.kept_versions)
            union
            select pair.engine_version
            where pair.other_means
            order by 1)
    from pair
    where r.revision_id = pair.revision_id and r.tenant_id = pair.tenant_id and exists (select from kept)
      and (pair.other_means or pair.kept_versions is not null)
)
select count(*) as kept from kept
