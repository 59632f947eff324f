-- Limits that are declared, and a kind that the brake has paused.
update batchproc.kinds set declared_limit = 4 where kind = 'ocr';
insert into batchproc.kinds (kind, paused, paused_code, paused_reason, paused_at)
values ('broken', true, 'import_error', '20 in a row', now());
