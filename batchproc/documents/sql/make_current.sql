-- A revision that a person made is never replaced.
update batchproc.documents d
set current_revision = %(revision_id)s, status = %(status)s, failure_code = null, media_type = %(media_type)s,
    page_count = %(page_count)s, flags = %(flags)s, fields = (d.fields - 'pdf_title') || %(fields)s,
    verified_at = clock_timestamp()
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
  and not exists (select from batchproc.ocr_revisions r
                  where r.revision_id = d.current_revision and r.tenant_id = d.tenant_id and r.source = 'person')
