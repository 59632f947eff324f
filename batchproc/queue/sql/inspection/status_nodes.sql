select n.node_id, n.host, n.pid, n.slots, n.kinds, n.languages, n.engine_version, n.code_version, n.started_at, n.lease_until,
       n.lease_until > clock_timestamp() as alive,
       extract(epoch from clock_timestamp() - n.started_at)::float8 as seconds,
       (select count(*) from batchproc.processing_jobs j where j.state = 'running' and j.node_id = n.node_id) as running,
       a.run_id, a.ended,
       -- Nodes of some releases told one of less, too.
       case when n.started_at <= clock_timestamp() - interval '1 min' then a.jobs_per_minute end as jobs_per_minute
from batchproc.nodes n
left join batchproc.node_activity a using (node_id)
order by n.started_at
