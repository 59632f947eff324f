-- Also kinds that no node has made known yet, as long as jobs of them are there to be run.
with jobs as (
    select kind,
           count(*) filter (where state = 'available') as available,
           count(*) filter (where state = 'scheduled') as scheduled,
           count(*) filter (where state = 'running') as running
    from batchproc.processing_jobs
    where state in ('available', 'scheduled', 'running')
    group by kind
)
select kind, coalesce(k.paused, false) as paused, k.paused_code, k.paused_reason, k.paused_at, k.max_running,
       k.declared_limit, k.rate, k.burst, k.declared_rate, k.declared_burst, coalesce(j.available, 0) as available, coalesce(j.scheduled, 0) as scheduled,
       coalesce(j.running, 0) as running
from batchproc.kinds k
full join jobs j using (kind)
where %(kind)s::text is null or kind = %(kind)s
order by kind
