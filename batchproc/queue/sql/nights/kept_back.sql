-- Jobs that wait until a person changes something: their kind, tenant or campaign is paused, or may run none at a time.
-- What a brake has paused is told elsewhere. A job that several of these keep counts for each; in total once. Of what keeps them no more is told than
-- asked for, that with most jobs, and how many more there are.
with waiting as materialized (
    select t.slug, t.paused as tenant_paused, t.max_running = 0 as tenant_none,
           j.kind, k.paused and k.paused_code is null as kind_paused, k.paused_reason,
           coalesce(k.max_running, k.declared_limit) = 0 as kind_none,
           c.campaign_id
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id
    left join batchproc.kinds k on k.kind = j.kind
    left join batchproc.campaigns c on c.campaign_id = j.campaign_id and j.state = 'held' and c.paused
    where j.state in ('available', 'scheduled', 'held')
      and (t.paused or t.max_running = 0 or k.paused and k.paused_code is null
           or coalesce(k.max_running, k.declared_limit) = 0 or c.campaign_id is not null)
      and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
      and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
      and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
), kept as (
    select 'paused' as by, null as tenant, kind, null::bigint as campaign_id, paused_reason as reason, count(*) as jobs
    from waiting where kind_paused group by kind, paused_reason
    union all
    select 'paused', slug, null, null, null, count(*) from waiting where tenant_paused group by slug
    union all
    select 'paused', null, null, campaign_id, null, count(*) from waiting where campaign_id is not null group by campaign_id
    union all
    select 'limit', null, kind, null, null, count(*) from waiting where kind_none group by kind
    union all
    select 'limit', slug, null, null, null, count(*) from waiting where tenant_none group by slug
)
select by, tenant, kind, campaign_id, reason, jobs, (select count(*) from kept) as keepers,
       (select count(*) from waiting) as total
from kept
order by jobs desc, kind, tenant, campaign_id, by
limit %(most)s
