-- Kinds that a brake has paused and that keep jobs of this scope from being run. Their queues are found as in ready.sql,
-- by a loose index scan: no index leads with the kind, and of a paused one there may be a million jobs or none.
with recursive queues as (
    (select lane, tenant_id, kind from batchproc.processing_jobs
     where state = 'available' order by lane, tenant_id, kind limit 1)
    union all
    select n.lane, n.tenant_id, n.kind
    from queues q
    cross join lateral (
        select j.lane, j.tenant_id, j.kind from batchproc.processing_jobs j
        where j.state = 'available' and (j.lane, j.tenant_id, j.kind) > (q.lane, q.tenant_id, q.kind)
        order by j.lane, j.tenant_id, j.kind limit 1
    ) n
)
select k.kind, k.paused_code, k.paused_reason
from batchproc.kinds k
where k.paused and k.paused_code is not null
  and k.kind = any(%(known)s)
  and (cardinality(%(kinds)s::text[]) = 0 or k.kind = any(%(kinds)s))
  and exists (
      select from queues q
      where q.kind = k.kind
        and (cardinality(%(tenant_ids)s::bigint[]) = 0 or q.tenant_id = any(%(tenant_ids)s))
        and (cardinality(%(lanes)s::smallint[]) = 0 or q.lane = any(%(lanes)s)))
order by k.kind
