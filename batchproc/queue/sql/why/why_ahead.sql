-- How many jobs will be claimed before a due one, as far as %(most)s: those before it in its own queue, and of each other
-- tenant in its lane as many as it will have had turns by then. Tenants that are paused, and kinds that are, wait.
with recursive own as (
    select count(*)::int as jobs from (
        select from batchproc.processing_jobs
        where state = 'available' and lane = %(lane)s and tenant_id = %(tenant_id)s and kind = %(kind)s
          and (priority, job_id) < (%(priority)s, %(job_id)s)
        limit %(most)s
    ) ahead
), queues as (
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
), open_queues as materialized (
    select q.lane, q.tenant_id, q.kind, t.weight
    from queues q
    join batchproc.tenants t on t.tenant_id = q.tenant_id and not t.paused
    left join batchproc.kinds k on k.kind = q.kind
    where k.paused is not true
), others as (
    -- Of a tenant with more weight more jobs come in the same time.
    select q.tenant_id,
           least(sum(c.jobs), ceil((o.jobs + 1) * max(q.weight) / (select weight from batchproc.tenants
                                                                  where tenant_id = %(tenant_id)s))) as jobs
    from open_queues q
    cross join own o
    cross join lateral (
        select count(*) as jobs from (
            select from batchproc.processing_jobs
            where state = 'available' and lane = q.lane and tenant_id = q.tenant_id and kind = q.kind
            limit least(%(most)s, ceil((o.jobs + 1) * q.weight))::int
        ) met
    ) c
    where q.lane = %(lane)s and q.tenant_id <> %(tenant_id)s
    group by q.tenant_id, o.jobs
), interactive as (
    select count(*)::int as jobs from (
        select from batchproc.processing_jobs
        where state = 'available' and lane = 0 and %(lane)s > 0
        limit %(most)s
    ) ahead
)
select o.jobs as own, (select count(*)::int from others) as tenants,
       (select coalesce(sum(jobs), 0)::bigint from others) as of_others, i.jobs as interactive
from own o cross join interactive i
