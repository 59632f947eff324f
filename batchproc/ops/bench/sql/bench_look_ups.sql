-- What the index itself costs: the first job of each queue, of queues that are known already.
select count(*)
from unnest(%(lanes)s::smallint[], %(tenants)s::bigint[], %(kinds)s::text[]) as q(lane, tenant_id, kind)
cross join lateral (
    select job_id from batchproc.processing_jobs j
    where j.state = 'available' and j.lane = q.lane and j.tenant_id = q.tenant_id and j.kind = q.kind
    order by j.priority, j.job_id limit 1
) first
