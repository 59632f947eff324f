-- Other nodes that hold jobs and whose lease lives. The offset keeps the planner from reading all that runs.
select n.node_id, n.lease_until
from batchproc.nodes n
where n.node_id <> %s and n.lease_until > clock_timestamp()
  and exists (select from batchproc.processing_jobs j where j.state = 'running' and j.node_id = n.node_id offset 0)
