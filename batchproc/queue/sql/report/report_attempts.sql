-- What a report counts, chosen once for all of its statements: the attempts of a run, found by the time of their end,
-- which is the order they are stored in, or those of a campaign's jobs. ``again``: the job came back. The pages of a
-- document in ranges are counted with its ranges. ``retaken``: the job was given up on, and somebody has retried it since,
-- whatever became of it; what became of the attempt stays as it was.
create temporary table report_attempts on commit drop as
select a.job_id, a.tenant_id, j.kind, j.lane, j.document_id, a.seconds, a.outcome, a.failure_code,
       a.ended_at - make_interval(secs => greatest(a.seconds, 0)) as began_at, a.ended_at,
       greatest(0, extract(epoch from a.started_at - greatest(
           %(since)s, j.created_at, case when j.run_at <= a.started_at then j.run_at end)))::double precision as waited,
       case when a.outcome in ('completed', 'cancelled') then a.outcome
            when o.gave_up then 'discarded' else 'again' end as became,
       o.gave_up and not (l.is_last and j.run_id is not distinct from a.run_id) as retaken,
       case when o.reads and not o.joins then (j.result ->> 'pages')::integer end as pages,
       case when o.reads and not o.joins then (j.result ->> 'failed_page_count')::integer end as failed_pages
from (
    select r.*
    from batchproc.job_attempts r
    where r.run_id = %(run_id)s::bigint and r.ended_at between %(since)s and %(until)s
    union all
    select r.*
    from batchproc.campaign_jobs c
    join batchproc.job_attempts r on r.job_id = c.job_id and r.tenant_id = c.tenant_id
    where c.campaign_id = %(campaign_id)s::bigint
) a
join batchproc.processing_jobs j using (job_id, tenant_id)
cross join lateral (
    select a.outcome = 'failed' and j.state = 'discarded' and not exists (
        select from batchproc.job_attempts n where n.job_id = a.job_id and n.ended_at > a.ended_at) as is_last
) l
cross join lateral (
    select a.outcome = 'completed' and j.kind = 'ocr' and not coalesce(j.result ? 'ranges', false) as reads,
           j.range_of is not null and coalesce(j.args ->> 'range' = 'join', false) as joins,
           a.outcome = 'failed' and coalesce(a.gave_up, l.is_last) as gave_up
) o
