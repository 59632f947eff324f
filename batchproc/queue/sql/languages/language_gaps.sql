-- Queues of a scope with jobs that no live node has the languages for: those that name the same languages themselves, or
-- those that leave them to the tenant (null). One node must have all that a job needs, as core/languages.py says it. A
-- row here is what gap_by_languages.sql or gap_by_tenant.sql can take, unless somebody holds it locked.
-- What it reads grows with tenants and with the lists that jobs name, which are few, not with jobs.
with recursive alive as materialized (
    select kinds, languages, default_languages from batchproc.nodes where lease_until > clock_timestamp()
), asked(kind, languages) as (
    (select kind, languages from batchproc.processing_jobs
     where state = 'available' and languages is not null order by kind, languages limit 1)
    union all
    select n.kind, n.languages
    from asked a
    cross join lateral (
        select j.kind, j.languages from batchproc.processing_jobs j
        where j.state = 'available' and j.languages is not null and (j.kind, j.languages) > (a.kind, a.languages)
        order by j.kind, j.languages limit 1
    ) n
), served as (
    select k.kind
    from unnest(%(language_kinds)s::text[]) as k(kind)
    where exists (select from alive n where k.kind = any(n.kinds))
      and not exists (select from batchproc.kinds p where p.kind = k.kind and p.paused)
      and (cardinality(%(kinds)s::text[]) = 0 or k.kind = any(%(kinds)s))
), scoped as materialized (
    select tenant_id, coalesce(settings -> 'languages', '[]') as languages
    from batchproc.tenants
    where not paused and (cardinality(%(tenant_ids)s::bigint[]) = 0 or tenant_id = any(%(tenant_ids)s))
), of_tenants as materialized (
    select distinct languages from scoped
), lists as (
    -- Where a job names languages, those of its tenant (null here) do not matter.
    select s.kind, a.languages, null::jsonb as of_tenant
    from served s join asked a using (kind)
    where a.languages <> '{auto}'
    union all
    select s.kind, a.languages, o.languages
    from served s join asked a using (kind) cross join of_tenants o
    where a.languages = '{auto}'
    union all
    select s.kind, null, o.languages
    from served s cross join of_tenants o
), unserved as materialized (
    select l.kind, l.languages, l.of_tenant
    from lists l
    where not exists (
        select from alive n
        where l.kind = any(n.kinds) and (l.languages is null or l.languages <@ n.languages)
          and (l.of_tenant is null
               or l.of_tenant <@ to_jsonb(n.languages)
                  and (l.of_tenant not in ('[]', '["auto"]') or n.default_languages <@ n.languages)))
), queues as materialized (
    select u.kind, u.languages, q.lane, t.tenant_id
    from unserved u
    join scoped t on u.of_tenant is null or t.languages = u.of_tenant
    cross join (values (0::smallint), (1::smallint)) as q(lane)
    where cardinality(%(lanes)s::smallint[]) = 0 or q.lane = any(%(lanes)s)
)
-- Without offset 0 each would be one join that reads all such jobs.
select q.kind, q.languages, q.lane, q.tenant_id
from queues q
where q.languages is not null and exists (
    select from batchproc.processing_jobs j
    where j.state = 'available' and j.kind = q.kind and j.languages = q.languages and j.tenant_id = q.tenant_id
      and j.lane = q.lane and j.job_id <> all(%(skip)s::bigint[])
    offset 0)
union all
select q.kind, null, q.lane, q.tenant_id
from queues q
where q.languages is null and exists (
    select from batchproc.processing_jobs j
    where j.state = 'available' and j.lane = q.lane and j.tenant_id = q.tenant_id and j.kind = q.kind
      and j.languages is null and j.job_id <> all(%(skip)s::bigint[])
    offset 0)
