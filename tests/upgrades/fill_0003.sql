-- Storage roots, languages of jobs, and what is remembered of pages and revisions.
insert into batchproc.storage_roots (root, boot_id, device, inode, filesystem)
values ('/gone', gen_random_uuid(), 1, 2, 3);
update batchproc.processing_jobs set languages = '{eng}' where job_id = 8;
update batchproc.ocr_pages set skew = 1.5, dpi_estimated = true, engine_calls = 1 where revision_id = 1 and page = 1;
update batchproc.ocr_revisions
set confidence = 91.5, words = 2, characters = 11, failed_pages = 0, seconds = 1.3, verdict = 'first'
where revision_id = 1;
update batchproc.nodes set default_languages = '{eng}';
