select t.slug as tenant, j.kind, j.lane,
       count(*) filter (where j.state = 'available') as available,
       count(*) filter (where j.state = 'scheduled') as scheduled,
       count(*) filter (where j.state = 'running') as running,
       greatest(0, extract(epoch from clock_timestamp() - min(j.run_at) filter (where j.state = 'available')))::float8
           as oldest_seconds
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
where j.state in ('available', 'scheduled', 'running')
group by t.slug, j.kind, j.lane
order by t.slug, j.kind, j.lane
