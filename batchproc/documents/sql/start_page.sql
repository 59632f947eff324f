-- An attempt that was interrupted comes back under the same number, and is no second start.
insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt)
values (%(revision_id)s, %(tenant_id)s, %(page)s, 'started', %(job_id)s, %(attempt)s)
on conflict (revision_id, page) do update
set starts = ocr_pages.starts
             + ((ocr_pages.job_id, ocr_pages.attempt) is distinct from (excluded.job_id, excluded.attempt))::int,
    job_id = excluded.job_id, attempt = excluded.attempt, started_at = clock_timestamp()
where ocr_pages.state = 'started'
