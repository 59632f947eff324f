insert into batchproc.ocr_revisions
    (tenant_id, document_id, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
     job_id, claim_id, pilot)
values
    (%(tenant_id)s, %(document_id)s, %(engine)s, %(engine_version)s, %(data_hash)s, %(profile)s, %(languages)s,
     %(source_sha256)s, %(page_count)s, %(job_id)s, %(claim_id)s, %(pilot)s)
on conflict (tenant_id, document_id) where state = 'open' do nothing
returning revision_id
