-- The same content again gives no row; another document's external_id is an error.
insert into batchproc.documents
    (tenant_id, external_id, root, path, sha256, bytes, language, title, title_source, verified_at)
values
    (%(tenant_id)s, %(external_id)s, %(root)s, %(path)s, %(sha256)s, %(bytes)s, %(language)s, %(title)s,
     case when %(title)s::text is not null then 'manifest' end, clock_timestamp())
on conflict (tenant_id, sha256) do nothing
returning document_id
