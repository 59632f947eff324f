-- The current revision, new or not, says what text there is; what was found out about the original holds in any case.
update batchproc.documents d
set current_revision = %(current)s, status = %(status)s, failure_code = null, media_type = %(media_type)s,
    page_count = %(page_count)s, flags = %(flags)s, fields = (d.fields - 'pdf_title') || %(fields)s,
    verified_at = clock_timestamp()
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
