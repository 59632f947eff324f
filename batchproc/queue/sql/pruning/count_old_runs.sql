-- As prune_runs.sql, to tell how many it would take.
select count(*)
from batchproc.runs r
where coalesce(r.finished_at, r.started_at) < %(until)s and r.run_id <> all(%(kept)s::bigint[])
  and not exists (select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp())
