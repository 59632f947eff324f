-- Nodes that ended without leaving and hold no claim any more.
delete from batchproc.nodes n
where n.lease_until < clock_timestamp() - interval '1 day'
  and not exists (select from batchproc.processing_jobs j where j.state = 'running' and j.node_id = n.node_id)
