update batchproc.documents
set status = case when %(keep_status)s and current_revision is not null then status else 'failed' end,
    failure_code = %(failure_code)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
