-- Kinds that a brake has paused and that keep jobs of this scope from being run.
select k.kind, k.paused_code, k.paused_reason
from batchproc.kinds k
where k.paused and k.paused_code is not null
  and k.kind = any(%(known)s)
  and (cardinality(%(kinds)s::text[]) = 0 or k.kind = any(%(kinds)s))
  and exists (
      select from batchproc.processing_jobs j
      where j.state = 'available' and j.kind = k.kind
        and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
        and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s)))
order by k.kind
