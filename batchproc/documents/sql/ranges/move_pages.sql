-- Of two revisions that would have the same text: pages keep what they are, those that were begun how often.
with moved as (
    update batchproc.ocr_pages p
    set revision_id = target.revision_id
    from batchproc.ocr_revisions target
    join batchproc.ocr_revisions source
        on source.tenant_id = target.tenant_id and source.document_id = target.document_id
        and source.revision_id = %(from_revision_id)s
    where target.revision_id = %(revision_id)s and target.tenant_id = %(tenant_id)s and target.state = 'open'
      and p.revision_id = source.revision_id and p.tenant_id = source.tenant_id
    returning 1
), marked as (
    update batchproc.ocr_revisions target
    set kept_versions = source.kept_versions
    from batchproc.ocr_revisions source
    where target.revision_id = %(revision_id)s and target.tenant_id = %(tenant_id)s
      and source.revision_id = %(from_revision_id)s and source.tenant_id = target.tenant_id
      and source.document_id = target.document_id and source.kept_versions is not null
)
select count(*) as moved from moved
