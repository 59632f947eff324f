-- Jobs that are not over by lane and state, and since when the oldest due one waits that neither its tenant's nor its
-- kind's pause keeps.
select j.lane, j.state, count(*) as jobs,
       greatest(0, extract(epoch from clock_timestamp() - min(j.run_at) filter (
           where j.state = 'available' and not t.paused and k.paused is not true)))::float8 as oldest_seconds
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
left join batchproc.kinds k on k.kind = j.kind
where j.state in ('scheduled', 'available', 'running', 'held')
group by j.lane, j.state
