-- What the slots of the nodes that live are at. ``running``: the job is still at it, by the database's word, which is a
-- few seconds ahead of what the node has written. A node that has written nothing, being of an older release or just
-- begun, is told of by what it holds.
with alive as materialized (
    select node_id, host, pid, slots, started_at from batchproc.nodes where lease_until > clock_timestamp()
), at as (
    select s.node_id, s.slot, s.job_id, s.claim_id, s.worker_pid, s.begun_at, s.resident_bytes
    from batchproc.node_slots s
    join alive using (node_id)
    where s.job_id is not null
    union all
    select n.node_id, null, j.job_id, j.claim_id, null, j.claimed_at, null
    from alive n
    cross join lateral (
        select job_id, claim_id, claimed_at from batchproc.processing_jobs
        where state = 'running' and node_id = n.node_id
        order by job_id
        limit n.slots
    ) j
    where not exists (select from batchproc.node_slots s where s.node_id = n.node_id)
)
select n.node_id, n.host, a.slot, a.worker_pid, a.job_id, t.slug as tenant, j.kind, j.document_id, j.attempt,
       g.done, g.total,
       greatest(0, extract(epoch from clock_timestamp() - a.begun_at))::float8 as seconds, a.resident_bytes,
       coalesce(j.claim_id = a.claim_id, false) as running
from at a
join alive n using (node_id)
left join batchproc.processing_jobs j on j.job_id = a.job_id
left join batchproc.tenants t on t.tenant_id = j.tenant_id
left join batchproc.job_signals g on g.job_id = a.job_id
order by n.started_at, n.node_id, a.slot, a.job_id
