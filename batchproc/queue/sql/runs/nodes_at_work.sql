-- The nodes that hold jobs, by the word of the jobs: whether that is the node of a run, until when its lease lasts and in
-- how many seconds that ends (null, 0: it is gone), and how many jobs it holds.
select j.node_id, j.node_id = r.node_id as own, n.lease_until,
       greatest(0, coalesce(extract(epoch from n.lease_until - clock_timestamp()), 0))::float8 as seconds,
       count(*) as jobs
from batchproc.processing_jobs j
join batchproc.runs r on r.run_id = %(run_id)s
left join batchproc.nodes n on n.node_id = j.node_id
where j.state = 'running'
group by j.node_id, r.node_id, n.lease_until
