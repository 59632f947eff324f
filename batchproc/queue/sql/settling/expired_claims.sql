-- Locked for this look alone: a row that a cut-off node's handler still holds is passed over, so that the rescue of the
-- others does not wait for it.
select j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
       j.timeouts, j.node_losses, j.range_of
from batchproc.processing_jobs j
where j.state = 'running'
  and not exists (select from batchproc.nodes n where n.node_id = j.node_id and n.lease_until > clock_timestamp())
  and j.job_id <> all(%(skip)s::bigint[])
order by j.job_id
limit %(limit)s
for no key update of j skip locked
