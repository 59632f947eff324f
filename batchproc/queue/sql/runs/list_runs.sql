-- Runs, the newest first, from below the last one seen; of the scope the tenants by name, as far as they are still there.
-- How long a run took whose node was killed nobody knows here; a clock that was set back since says nothing below 0.
select r.run_id, r.started_at, r.finished_at, r.exit_code, r.counts,
       (select coalesce(jsonb_agg(t.slug order by t.slug), '[]') from batchproc.tenants t
        where r.scope -> 'tenant_ids' @> to_jsonb(t.tenant_id)) as tenants,
       coalesce(r.scope -> 'kinds', '[]') as kinds, coalesce(r.scope -> 'lanes', '[]') as lanes,
       batchproc.run_is_single(r.scope) as single, r.scope ? 'pilot' as pilot,
       case when g.goes_on or r.finished_at is not null
            then greatest(0, extract(epoch from coalesce(r.finished_at, clock_timestamp()) - r.started_at))
       end::double precision as seconds,
       g.goes_on
from batchproc.runs r
cross join lateral (
    select r.finished_at is null and exists (
        select from batchproc.nodes n
        where n.node_id = r.node_id and n.lease_until > clock_timestamp()) as goes_on
) g
where %(before)s::bigint is null or r.run_id < %(before)s
order by r.run_id desc
limit %(limit)s
