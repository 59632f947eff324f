-- A document that failed although it has text failed for its original, which no other text mends.
update batchproc.documents
set current_revision = %(revision_id)s, page_count = %(page_count)s,
    status = case when status = 'failed' and current_revision is not null then status else %(status)s end,
    failure_code = case when status = 'failed' and current_revision is not null then failure_code end
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
