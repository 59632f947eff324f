-- Turns, rates, and a large document that was split into the ranges of its pages; its tenant is paused meanwhile.
insert into batchproc.tenant_turns (tenant_id, last_turn_at) values (1, now() - interval '1 day');
update batchproc.kinds set rate = 50, burst = 5, tokens = 5, refilled_at = now() where kind = 'ocr';
insert into batchproc.documents (tenant_id, root, path, sha256, bytes, media_type, page_count)
values (2, '/gone', 'large.pdf', sha256('6'), 1, 'application/pdf', 100);
insert into batchproc.document_paths (tenant_id, document_id, root, path) values (2, 6, '/gone', 'large.pdf');
insert into batchproc.ocr_revisions
    (tenant_id, document_id, state, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
     ranges_left, findings)
values (2, 6, 'open', 'tesseract', '5.3.0', 'old', '{}', '{eng}', sha256('6'), 100, 1, '{}');
insert into batchproc.processing_jobs
    (tenant_id, document_id, kind, state, args, attempt, max_attempts, finished_at, range_of)
values (2, 6, 'ocr', 'completed', '{"range": [1, 50]}', 1, 5, now(), 4),
       (2, 6, 'ocr', 'available', '{"range": [51, 100]}', 0, 5, null, 4);
