-- With how long its jobs waited, in seconds, from when they were due, at the earliest from the start of the run.
select t.slug as tenant, a.lane, count(distinct a.job_id) as jobs,
       count(*) filter (where a.became = 'completed') as completed,
       count(*) filter (where a.became = 'discarded') as discarded,
       coalesce(sum(a.pages), 0) as pages, coalesce(sum(a.failed_pages), 0) as failed_pages, sum(a.seconds) as seconds,
       percentile_cont(array[0.5, 0.95]) within group (order by a.waited) as waits, max(a.waited) as longest_wait
from report_attempts a
join batchproc.tenants t using (tenant_id)
group by t.slug, a.lane
order by max(a.waited) desc, t.slug, a.lane
