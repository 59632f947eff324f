-- What a database of the first schema held after some nights: two tenants, every state of documents, revisions and
-- jobs, a node that was killed, and a campaign that is paused.
insert into batchproc.tenants (slug) values ('acme');
insert into batchproc.tenants (slug, weight, max_running, paused, settings)
values ('beta', 2, 1, true, '{"languages": ["eng"]}');
insert into batchproc.kinds (kind, paused, max_running) values ('ocr', false, 3), ('gone', true, null);
insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, engine_version, code_version)
values ('00000000-0000-0000-0000-00000000dead', now() - interval '1 day', 'old', 4711, 2, '{ocr,t_echo}', '{eng}',
        'tesseract 5.3.0', '0.1.0');
insert into batchproc.campaigns (command, paused) values ('reprocess --all', false), ('reprocess --tenant acme', true);
insert into batchproc.runs (node_id, finished_at, exit_code, counts)
values ('00000000-0000-0000-0000-00000000dead', now() - interval '2 days', 1, '{"completed": 1, "discarded": 1}');
insert into batchproc.runs (node_id) values ('00000000-0000-0000-0000-00000000dead');

insert into batchproc.documents
    (tenant_id, external_id, root, path, sha256, bytes, media_type, page_count, language, title, title_source, status,
     failure_code, flags, fields)
values
    (1, 'A-1', %(root)s, %(path)s, %(sha256)s, %(bytes)s, null, null, 'eng', null, null, 'pending', null, '{}', '{}'),
    (1, 'A-2', '/gone', 'two.pdf', sha256('2'), 1, 'application/pdf', 2, null, 'Two', 'person', 'completed', null,
     '{}', '{"number": 7}'),
    (1, null, '/gone', '\xff2e706466', sha256('3'), 1, 'application/pdf', 2, 'deu+eng', 'Three', 'pdf', 'partial', null,
     '{}', '{}'),
    (1, null, '/gone', 'four.pdf', sha256('4'), 1, null, null, null, null, null, 'failed', 'encrypted', '{}', '{}'),
    (2, null, '/gone', 'five.tif', sha256('5'), 1, 'image/tiff', 3, null, null, null, 'pending', null, '{}', '{}');
insert into batchproc.document_paths (tenant_id, document_id, root, path)
select tenant_id, document_id, root, path from batchproc.documents;
insert into batchproc.document_paths (tenant_id, document_id, root, path) values (1, 2, '/gone', 'copy-of-two.pdf');
insert into batchproc.document_tags (tenant_id, document_id, tag, source, rule, rule_version, reason)
values (1, 2, 'letter', 'rule', 'letters', '1', 'the word Dear'), (1, 2, 'letter', 'person', null, null, null),
       (1, 3, 'inbox', 'workflow', 'all', '1', 'always');

insert into batchproc.ocr_revisions
    (tenant_id, document_id, state, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
     job_id, completed_at)
values
    (1, 2, 'complete', 'tesseract', '5.3.0', 'old', '{}', '{eng}', sha256('2'), 2, 5, now() - interval '3 days'),
    (1, 3, 'complete', 'tesseract', '5.3.0', 'old', '{}', '{deu,eng}', sha256('3'), 2, 5, now() - interval '3 days'),
    (2, 5, 'open', 'tesseract', '5.3.0', 'old', '{}', '{eng}', sha256('5'), 3, 8, null);
insert into batchproc.ocr_pages
    (revision_id, tenant_id, page, state, job_id, attempt, text, confidence, words, rotation, seconds, failure_code,
     ended_at)
values
    (1, 1, 1, 'ocr', 5, 1, 'Dear reader', 91.5, 2, 0, 1.2, null, now()),
    (1, 1, 2, 'blank', 5, 1, '', null, 0, 0, 0.1, null, now()),
    (2, 1, 1, 'text', 5, 1, 'Sehr geehrte', 100, 2, 0, 0.1, null, now()),
    (2, 1, 2, 'failed', 5, 1, null, null, null, null, 0.1, 'too_large', now()),
    (3, 2, 1, 'ocr', 8, 1, 'half', 80, 1, 0, 1, null, now());
insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt) values (3, 2, 2, 'started', 8, 1);
update batchproc.documents set current_revision = document_id - 1 where document_id in (2, 3);

insert into batchproc.processing_jobs
    (tenant_id, document_id, kind, state, run_at, args, unique_key, attempt, max_attempts, claim_id, node_id, result,
     failure_code, campaign_id, run_id, claimed_at, finished_at)
values
    (1, 1, 'ocr', 'available', now(), '{"trigger": "upload"}', 'document:1', 0, 5, null, null, null, null, null, null,
     null, null),
    (1, null, 't_echo', 'scheduled', now() - interval '1 hour', '{"word": "scheduled"}', null, 1, 5, null, null, null,
     'internal_error', null, 1, now() - interval '1 day', null),
    (1, null, 't_echo', 'running', now(), '{"word": "running"}', null, 1, 5, '00000000-0000-0000-0000-0000000c1a13',
     '00000000-0000-0000-0000-00000000dead', null, null, 1, 2, now() - interval '1 day', null),
    (1, 2, 'ocr', 'held', now(), '{}', 'document:2', 0, 5, null, null, null, null, 2, null, null, null),
    (1, 2, 'ocr', 'completed', now(), '{}', 'document:2', 1, 5, null, null, '{"pages": 2}', null, 1, 1, now(), now()),
    (1, 4, 'ocr', 'discarded', now(), '{}', 'document:4', 1, 5, null, null, null, 'encrypted', 1, 1, now(), now()),
    (1, null, 't_echo', 'cancelled', now(), '{"word": "cancelled"}', null, 0, 5, null, null, null, null, null, null,
     null, now()),
    (2, 5, 'ocr', 'available', now(), '{"languages": ["eng"]}', 'document:5', 0, 5, null, null, null, null, null, null,
     null, null);
insert into batchproc.job_signals (job_id, tenant_id, done, total) values (3, 1, 1, 9);
insert into batchproc.job_attempts
    (claim_id, job_id, tenant_id, number, node_id, run_id, worker_pid, started_at, ended_at, seconds, outcome,
     error_class, failure_code)
values
    (gen_random_uuid(), 5, 1, 1, '00000000-0000-0000-0000-00000000dead', 1, 1, now(), now(), 1.5, 'completed', null,
     null),
    (gen_random_uuid(), 6, 1, 1, '00000000-0000-0000-0000-00000000dead', 1, 1, now(), now(), 0.5, 'failed', 'permanent',
     'encrypted');
insert into batchproc.usage_daily (tenant_id, day, kind, attempts, worker_seconds, completed, discarded, pages_ocr)
values (1, current_date - 1, 'ocr', 2, 2.0, 1, 1, 2);
