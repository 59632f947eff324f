-- Jobs of a scope that could begin at once: their tenants and kinds are neither paused nor have a limit of 0. Beside them
-- those that run on nodes that live; a dead node's wait for their rescue.
select (select count(*) from batchproc.processing_jobs j
        where j.state = 'available'
          and not exists (select from batchproc.tenants t where t.tenant_id = j.tenant_id and (t.paused or t.max_running = 0))
          and not exists (select from batchproc.kinds k
                          where k.kind = j.kind and (k.paused or coalesce(k.max_running, k.declared_limit) = 0))
          and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
          and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
          and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))) as waiting,
       (select count(*) from batchproc.processing_jobs j
        join batchproc.nodes n on n.node_id = j.node_id and n.lease_until > clock_timestamp()
        where j.state = 'running'
          and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
          and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
          and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))) as running
