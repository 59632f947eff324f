-- As claim_one.sql, by the rules of claim_limited.sql: runs after the advisory lock of the limits.
with bucket as materialized (
    -- Of a row that somebody holds locked nothing is taken: its kind gives nothing for the moment.
    select k.kind, n.now,
           least(c.capacity, coalesce(k.tokens, c.capacity)
                             + greatest(0, extract(epoch from n.now - k.refilled_at)::float8)
                               * coalesce(k.rate, k.declared_rate)) as tokens
    from batchproc.kinds k
    cross join lateral (
        select coalesce(case when k.rate is null then k.declared_burst else k.burst end,
                        greatest(1, ceil(coalesce(k.rate, k.declared_rate)))) as capacity
    ) c
    cross join (select clock_timestamp() as now offset 0) n
    where k.kind = (select j.kind from batchproc.processing_jobs j where j.job_id = %(job_id)s)
      and coalesce(k.rate, k.declared_rate) is not null
    for no key update of k skip locked
), picked as materialized (
    select j.job_id, j.tenant_id, j.kind
    from batchproc.processing_jobs j
    join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
    left join batchproc.kinds k on k.kind = j.kind
    where j.job_id = %(job_id)s and j.state = 'available' and j.kind = any(%(kinds)s) and k.paused is not true
      and (t.max_running is null
           or t.max_running > (select count(*) from batchproc.processing_jobs r
                               where r.state = 'running' and r.tenant_id = j.tenant_id))
      and (coalesce(k.max_running, k.declared_limit) is null
           or coalesce(k.max_running, k.declared_limit) > (select count(*) from batchproc.processing_jobs r
                                                           where r.state = 'running' and r.kind = j.kind))
      and (coalesce(k.rate, k.declared_rate) is null or exists (select from bucket b where b.tokens >= 1))
      and (j.kind <> all(%(language_kinds)s::text[])
           or (j.languages is null or j.languages <@ %(able)s::text[])
              and (j.languages <> '{auto}'
                   or coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
                      and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]'))))
    for no key update of j skip locked
), spent as (
    update batchproc.kinds k
    set tokens = b.tokens - 1, refilled_at = b.now
    from bucket b, picked p
    where k.kind = b.kind and p.kind = b.kind
)
update batchproc.processing_jobs j
set state = 'running', attempt = j.attempt + 1, claim_id = %(claim_id)s, node_id = %(node_id)s,
    run_id = coalesce(%(run_id)s, j.run_id), claimed_at = clock_timestamp()
from picked p
where j.job_id = p.job_id and j.tenant_id = p.tenant_id
returning j.job_id, j.claim_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt, j.max_attempts, j.crashes,
          j.timeouts, j.node_losses
