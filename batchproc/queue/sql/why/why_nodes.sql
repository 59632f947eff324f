-- The nodes that live, with what they can do, what of the jobs their runs serve (null: unknown), and how fast they work.
select n.node_id, n.host, n.pid, n.slots, n.kinds, n.languages, n.default_languages, r.scope,
       -- Nodes of some releases told one of less, too.
       case when n.started_at <= clock_timestamp() - interval '1 min' then a.jobs_per_minute end as jobs_per_minute,
       coalesce(batchproc.run_is_single(r.scope), false) as is_single,
       (select count(*) from batchproc.processing_jobs j where j.state = 'running' and j.node_id = n.node_id) as running
from batchproc.nodes n
left join batchproc.node_activity a using (node_id)
left join lateral (
    select scope from batchproc.runs
    where run_id = a.run_id or (a.run_id is null and node_id = n.node_id)
    order by run_id desc
    limit 1
) r on true
where n.lease_until > clock_timestamp()
order by n.started_at
