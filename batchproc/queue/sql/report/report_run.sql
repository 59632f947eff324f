-- One run, or with no id the newest night that claimed something, else the newest of one job or of a pilot that did, else
-- the newest.
select r.run_id, r.scope, r.started_at, r.finished_at, r.exit_code, r.counts, r.slots,
       exists (select from batchproc.nodes n
               where n.node_id = r.node_id and n.lease_until > clock_timestamp()) as alive,
       clock_timestamp() as now
from batchproc.runs r
where %(run_id)s::bigint is null or r.run_id = %(run_id)s
order by coalesce((r.counts ->> 'claimed')::bigint, 1) > 0 desc,
         r.scope ?| array['single', 'in_process', 'pilot'], r.run_id desc
limit 1
