-- What tells whether the nights go well that are for all of what is asked about. What reprocess enqueued, pilots too,
-- may wait for many nights, and that is as it should be; what was imported may not.
with nights as materialized (
    select run_id, node_id, started_at, finished_at, exit_code
    from batchproc.runs
    where batchproc.run_covers(scope, %(asked)s)
    order by run_id desc
    limit 1000
), last_good as (
    select * from nights where exit_code in (0, 1) order by finished_at desc limit 1
), last_ended as (
    -- Of one whose node is gone without a word nobody knows when that was.
    select * from nights r
    where r.finished_at is not null
       or not exists (select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp())
    order by coalesce(r.finished_at, r.started_at) desc, r.run_id desc
    limit 1
), by_campaign as materialized (
    select j.campaign_id, count(*) as jobs, min(j.run_at) as since
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
    left join batchproc.kinds k on k.kind = j.kind
    where j.state = 'available' and k.paused is not true
      and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
      and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
      and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
    group by j.campaign_id
), waiting as (
    -- The campaigns by then: looked up once each, not for each of their jobs.
    select coalesce(sum(b.jobs), 0)::bigint as jobs, min(b.since) filter (where c.campaign_id is null) as since
    from by_campaign b
    left join batchproc.campaigns c on c.campaign_id = b.campaign_id and split_part(c.command, ' ', 1) = 'reprocess'
)
select clock_timestamp() as now, g.run_id as good_run, g.finished_at as good_at, g.exit_code as good_code,
       e.run_id as last_run, e.started_at as last_started, e.finished_at as last_at, e.exit_code as last_code,
       (select count(*) from nights r
        join batchproc.nodes n on n.node_id = r.node_id and n.lease_until > clock_timestamp()
        where r.finished_at is null) as going,
       w.jobs as waiting, w.since as waiting_since,
       array(select k.kind || ' (' || k.paused_code || ')' from batchproc.kinds k
             where k.paused and k.paused_code is not null
               and (cardinality(%(kinds)s) = 0 or k.kind = any(%(kinds)s)) order by k.kind) as braked
from waiting w
left join last_good g on true
left join last_ended e on true
