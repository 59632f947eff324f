-- What a run got through, counted as report_attempts.sql has it, where nothing but the sums is asked for.
select coalesce(sum(a.seconds), 0)::double precision as seconds,
       coalesce(sum((j.result ->> 'pages')::integer) filter (where o.reads), 0)::bigint as pages,
       coalesce(sum((j.result ->> 'failed_page_count')::integer) filter (where o.reads), 0)::bigint as failed_pages
from batchproc.job_attempts a
join batchproc.processing_jobs j using (job_id, tenant_id)
cross join lateral (
    select a.outcome = 'completed' and j.kind = 'ocr' and not coalesce(j.result ? 'ranges', false)
           and not (j.range_of is not null and coalesce(j.args ->> 'range' = 'join', false)) as reads
) o
where a.run_id = %(run_id)s and a.ended_at between %(since)s and %(until)s
