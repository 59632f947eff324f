insert into batchproc.runs (node_id, scope, slots)
select r.node_id, r.scope, n.slots
from (values (%s::uuid, %s::jsonb)) as r(node_id, scope)
left join batchproc.nodes n using (node_id)
returning run_id
