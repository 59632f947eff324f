-- How many live nodes were started before this one, and how many there are.
select count(*) filter (where (n.started_at, n.node_id) < (me.started_at, me.node_id)) as place, count(*) as nodes
from batchproc.nodes me
join batchproc.nodes n on n.lease_until > clock_timestamp()
where me.node_id = %s
