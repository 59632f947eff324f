update batchproc.documents
set external_id = coalesce(external_id, %(external_id)s),
    language = coalesce(language, %(language)s),
    title = case when %(title)s::text is not null and title_source is distinct from 'person' then %(title)s
                 else title end,
    title_source = case when %(title)s::text is not null and title_source is distinct from 'person' then 'manifest'
                        else title_source end
where tenant_id = %(tenant_id)s and sha256 = %(sha256)s
returning document_id, failure_code, current_revision is not null
