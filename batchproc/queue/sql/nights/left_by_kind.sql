-- Jobs that still wait, whether due or not; apart, those that could be claimed when their time comes.
select j.kind, count(*) as jobs,
       count(*) filter (where j.state <> 'held' and not t.paused and k.paused is not true) as claimable
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id
left join batchproc.kinds k on k.kind = j.kind
where j.state in ('available', 'scheduled', 'held')
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
group by j.kind
order by j.kind
