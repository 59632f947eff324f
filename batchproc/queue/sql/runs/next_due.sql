-- The first job of a scope that is due later, and in how many seconds.
select j.job_id, j.kind, t.slug as tenant, j.run_at,
       greatest(0, extract(epoch from j.run_at - clock_timestamp()))::float8 as seconds
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused and t.max_running is distinct from 0
where j.state = 'scheduled'
  and not exists (select from batchproc.kinds k
                  where k.kind = j.kind and (k.paused or coalesce(k.max_running, k.declared_limit) = 0))
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
order by j.run_at, j.job_id
limit 1
