-- A loose index scan: its cost grows with the number of queues, never with the number of jobs. The place of each queue's
-- first job comes with it, in the same read.
with recursive queues as (
    (select lane, tenant_id, kind, priority, job_id from batchproc.processing_jobs
     where state = 'available' order by lane, tenant_id, kind, priority, job_id limit 1)
    union all
    select n.lane, n.tenant_id, n.kind, n.priority, n.job_id
    from queues q
    cross join lateral (
        select j.lane, j.tenant_id, j.kind, j.priority, j.job_id from batchproc.processing_jobs j
        where j.state = 'available' and (j.lane, j.tenant_id, j.kind) > (q.lane, q.tenant_id, q.kind)
        order by j.lane, j.tenant_id, j.kind, j.priority, j.job_id limit 1
    ) n
)
select q.lane, q.tenant_id, q.kind, t.weight,
       coalesce(t.max_running, k.max_running, k.declared_limit) is not null
           or coalesce(k.rate, k.declared_rate) is not null as limited,
       q.priority, q.job_id
from queues q
join batchproc.tenants t on t.tenant_id = q.tenant_id and not t.paused
left join batchproc.kinds k on k.kind = q.kind
where k.paused is not true
