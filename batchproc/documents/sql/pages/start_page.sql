-- An attempt that was interrupted comes back under the same number, and is no second start. Nor is one after an attempt
-- that the environment ended: that says nothing of the page.
insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt, claim_id)
select revision_id, tenant_id, %(page)s, 'started', %(job_id)s, %(attempt)s, %(claim_id)s
from batchproc.ocr_revisions
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
on conflict (revision_id, page) do update
set starts = ocr_pages.starts
             + ((ocr_pages.job_id, ocr_pages.attempt) is distinct from (excluded.job_id, excluded.attempt)
                and not exists (
                    select from batchproc.job_attempts a
                    where a.claim_id = ocr_pages.claim_id and a.tenant_id = ocr_pages.tenant_id
                      and a.failure_code in ('database_lost', 'no_space', 'storage_unavailable')))::int,
    job_id = excluded.job_id, attempt = excluded.attempt, claim_id = excluded.claim_id, started_at = clock_timestamp()
where ocr_pages.state = 'started'
returning starts
