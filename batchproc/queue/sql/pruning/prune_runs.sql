-- Runs that ended before that time, or began before it on a node that lives no more: what they counted is history. But
-- for those that kept_runs.sql names.
delete from batchproc.runs
where run_id in (
    select r.run_id
    from batchproc.runs r
    where coalesce(r.finished_at, r.started_at) < %(until)s and r.run_id <> all(%(kept)s::bigint[])
      and not exists (select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp())
    order by r.run_id
    limit %(limit)s
    for update skip locked
)
