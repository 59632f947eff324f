-- Jobs that wait because a person has paused their kind or their tenant; what a brake has paused is told elsewhere.
with waiting as (
    select t.slug, t.paused as tenant_paused, j.kind, k.paused and k.paused_code is null as kind_paused, k.paused_reason
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id
    left join batchproc.kinds k on k.kind = j.kind
    where j.state in ('available', 'scheduled', 'held') and (t.paused or k.paused)
      and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
      and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
      and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
)
select null as tenant, kind, paused_reason, count(*) as jobs from waiting where kind_paused group by kind, paused_reason
union all
select slug, null, null, count(*) from waiting where tenant_paused group by slug
order by jobs desc, kind, tenant
