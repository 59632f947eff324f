-- Jobs that are not over by lane and state, and since when the oldest due one waits that neither a pause nor a limit of 0
-- of its tenant or kind keeps. And whether any of these is for a node of this scope, where nothing means all.
select j.lane, j.state, count(*) as jobs,
       greatest(0, extract(epoch from clock_timestamp() - min(j.run_at) filter (
           where j.state = 'available' and not t.paused and t.max_running is distinct from 0 and k.paused is not true
             and coalesce(k.max_running, k.declared_limit) is distinct from 0)))::float8 as oldest_seconds,
       coalesce(bool_or(
           j.state = 'available' and not t.paused and t.max_running is distinct from 0 and k.paused is not true
           and coalesce(k.max_running, k.declared_limit) is distinct from 0
           and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
           and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
           and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))), false) as has_work
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
left join batchproc.kinds k on k.kind = j.kind
where j.state in ('scheduled', 'available', 'running', 'held')
group by j.lane, j.state
