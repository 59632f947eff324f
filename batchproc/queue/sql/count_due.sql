select count(*) filter (where state = 'available') as waiting, count(*) filter (where state = 'running') as running
from batchproc.processing_jobs
where state in ('available', 'running')
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or lane = any(%(lanes)s))
