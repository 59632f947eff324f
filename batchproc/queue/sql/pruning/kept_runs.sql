-- Runs that no prune takes, so that what tells how the nights go stays true (night.sql, report_run.sql, metrics_runs.sql):
-- of each scope the last that ended well, the last that said so, the last that ended, be it without a word, and the newest
-- that claimed a job, and the newest of all.
with ended as materialized (
    select r.run_id, r.scope, r.started_at, r.finished_at, r.exit_code
    from batchproc.runs r
    where r.finished_at is not null
       or not exists (select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp())
)
(select distinct on (scope) run_id from ended where exit_code in (0, 1) order by scope, finished_at desc, run_id desc)
union
(select distinct on (scope) run_id from ended where finished_at is not null
 order by scope, finished_at desc, run_id desc)
union
(select distinct on (scope) run_id from ended order by scope, coalesce(finished_at, started_at) desc, run_id desc)
union
(select distinct on (scope) run_id from batchproc.runs
 where coalesce((counts ->> 'claimed')::bigint, 1) > 0 order by scope, run_id desc)
union
(select run_id from batchproc.runs order by run_id desc limit 1)
