-- What tells whether the nights go well that are for all of what is asked about. What reprocess enqueued, pilots too,
-- may wait for many nights, and that is as it should be; what was imported may not.
with nights as materialized (
    select r.run_id, r.started_at, r.finished_at, r.exit_code,
           exists (select from batchproc.nodes n
                   where n.node_id = r.node_id and n.lease_until > clock_timestamp()) as alive
    from batchproc.runs r
    where batchproc.run_covers(r.scope, %(asked)s)
    order by r.run_id desc
    limit 1000
), last_good as (
    select * from nights where exit_code in (0, 1) order by finished_at desc limit 1
), last_ended as (
    -- Of one whose node is gone without a word nobody knows when that was.
    select * from nights
    where finished_at is not null or not alive
    order by coalesce(finished_at, started_at) desc, run_id desc
    limit 1
), looked as (
    -- Until when one of those nights looked for jobs.
    select max(coalesce(finished_at, case when alive then clock_timestamp() else started_at end)) as until from nights
), of_late as materialized (
    -- Runs of any jobs, and what they had handlers of; null: runs of older releases do not tell. However many there
    -- were since: one for a tenant each minute hides neither the last night nor a service. They differ in little.
    select distinct case when jsonb_array_length(coalesce(r.scope -> 'kinds', '[]')) = 0 then r.scope -> 'handlers'
                         else r.scope -> 'kinds' end as handlers
    from batchproc.runs r
    where not r.scope ?| array['single', 'in_process', 'pilot']
      and (r.run_id >= (select max(run_id) from nights)
           or coalesce(r.finished_at, r.started_at) > clock_timestamp() - make_interval(secs => %(of_late)s)
           or r.finished_at is null and exists (
               select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp()))
), due as materialized (
    select j.campaign_id, j.kind, count(*) as jobs, min(j.run_at) as since
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused and t.max_running is distinct from 0
    left join batchproc.kinds k on k.kind = j.kind
    where j.state = 'available' and k.paused is not true
      and coalesce(k.max_running, k.declared_limit) is distinct from 0
      and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
      and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
      and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
    group by j.campaign_id, j.kind
), by_campaign as materialized (
    select campaign_id, sum(jobs) as jobs, min(since) as since from due group by campaign_id
), waiting as (
    -- The campaigns by then: looked up once each, not for each of their jobs.
    select coalesce(sum(b.jobs), 0)::bigint as jobs, min(b.since) filter (where c.campaign_id is null) as since
    from by_campaign b
    left join batchproc.campaigns c on c.campaign_id = b.campaign_id and split_part(c.command, ' ', 1) = 'reprocess'
), unserved as (
    -- Due while such a night looked, and no run of late could take it.
    select d.kind, sum(d.jobs)::bigint as jobs
    from due d
    where not exists (select from of_late o where o.handlers is null or o.handlers ? d.kind)
    group by d.kind
    having min(d.since) < (select until from looked)
)
select clock_timestamp() as now, g.run_id as good_run, g.finished_at as good_at, g.exit_code as good_code,
       e.run_id as last_run, e.started_at as last_started, e.finished_at as last_at, e.exit_code as last_code,
       (select count(*) from nights where finished_at is null and alive) as going,
       w.jobs as waiting, w.since as waiting_since,
       array(select k.kind || ' (' || k.paused_code || ')' from batchproc.kinds k
             where k.paused and k.paused_code is not null
               and (cardinality(%(kinds)s) = 0 or k.kind = any(%(kinds)s)) order by k.kind) as braked,
       (select coalesce(jsonb_object_agg(kind, jobs), '{}') from unserved) as without_handler
from waiting w
left join last_good g on true
left join last_ended e on true
