-- Every kind and every tenant with a limit, and how many more of its jobs may be claimed at this moment; of a kind without
-- a token the seconds until there is one. What claim_limited.sql decides exactly, this only tells: it locks nothing.
with running as materialized (
    select tenant_id, kind, count(*) as jobs from batchproc.processing_jobs where state = 'running' group by tenant_id, kind
), kind_rooms as (
    select k.kind,
           coalesce(k.max_running, k.declared_limit)
               - coalesce((select sum(r.jobs) from running r where r.kind = k.kind), 0) as slots,
           coalesce(k.rate, k.declared_rate) as rate,
           least(c.capacity, coalesce(k.tokens, c.capacity)
                             + greatest(0, extract(epoch from clock_timestamp() - k.refilled_at)::float8)
                               * coalesce(k.rate, k.declared_rate)) as tokens
    from batchproc.kinds k
    cross join lateral (
        select coalesce(case when k.rate is null then k.declared_burst else k.burst end,
                        greatest(1, ceil(coalesce(k.rate, k.declared_rate)))) as capacity
    ) c
    where coalesce(k.max_running, k.declared_limit) is not null or coalesce(k.rate, k.declared_rate) is not null
)
select kind, null::bigint as tenant_id,
       least(slots, case when rate is not null then floor(tokens) end)::bigint as room,
       case when tokens < 1 and (slots is null or slots > 0) then (1 - tokens) / rate end as seconds
from kind_rooms
union all
select null, t.tenant_id, t.max_running - coalesce(r.jobs, 0), null
from batchproc.tenants t
left join (select tenant_id, sum(jobs) as jobs from running group by tenant_id) r on r.tenant_id = t.tenant_id
where t.max_running is not null
