-- Pages of ranges that were given up on, as far as nobody read them. Returns how many.
with given_up as (
    select g.job_id, g.code, page
    from unnest(%(job_ids)s::bigint[], %(firsts)s::int[], %(lasts)s::int[], %(codes)s::text[])
         as g(job_id, first, last, code)
    cross join lateral generate_series(g.first, g.last) as page
), failed as (
    insert into batchproc.ocr_pages as p
        (revision_id, tenant_id, page, state, starts, job_id, attempt, text, words, seconds, failure_code, ended_at)
    select r.revision_id, r.tenant_id, g.page, 'failed', 0, g.job_id, 0, '', 0, 0, g.code, clock_timestamp()
    from batchproc.ocr_revisions r
    join given_up g on g.page between 1 and r.page_count
    where r.revision_id = %(revision_id)s and r.tenant_id = %(tenant_id)s and r.state = 'open'
    order by g.page
    on conflict (revision_id, page) do update
    set state = 'failed', text = '', words = 0, seconds = 0, failure_code = excluded.failure_code,
        ended_at = excluded.ended_at
    where p.state = 'started'
    returning 1
), counted as (
    insert into batchproc.usage_daily as u (tenant_id, day, kind, pages_failed)
    select %(tenant_id)s, (clock_timestamp() at time zone 'UTC')::date, 'ocr', count(*)
    from failed
    having count(*) > 0
    on conflict (tenant_id, day, kind) do update set pages_failed = u.pages_failed + excluded.pages_failed
)
select count(*) as failed from failed
