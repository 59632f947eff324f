-- In the scope also the kinds that its node has handlers of: who looks at the nights later finds no node any more.
insert into batchproc.runs (node_id, scope, slots)
select r.node_id,
       r.scope || case when n.node_id is null then '{}' else jsonb_build_object('handlers', n.kinds) end, n.slots
from (values (%s::uuid, %s::jsonb)) as r(node_id, scope)
left join batchproc.nodes n using (node_id)
returning run_id
