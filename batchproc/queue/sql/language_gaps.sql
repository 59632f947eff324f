-- Jobs of a scope that no live node has the languages for, roughly: each is looked at again before it is given up on.
-- Either by the languages that jobs name themselves, which are few, or by tenants whose own languages (else those of the
-- nodes' settings) nobody has. What it reads grows with tenants and with such lists, not with jobs.
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
), lists as materialized (
    select distinct coalesce(settings -> 'languages', '[]') as languages from batchproc.tenants where not paused
), unserved as materialized (
    select l.languages, s.kind
    from lists l
    cross join served s
    where not exists (
        select from alive n
        where s.kind = any(n.kinds) and l.languages <@ to_jsonb(n.languages)
          and (l.languages not in ('[]', '["auto"]') or n.default_languages <@ n.languages))
), troubled as materialized (
    select t.tenant_id, u.kind
    from unserved u
    join batchproc.tenants t on coalesce(t.settings -> 'languages', '[]') = u.languages
    where not t.paused and (cardinality(%(tenant_ids)s::bigint[]) = 0 or t.tenant_id = any(%(tenant_ids)s))
)
select s.kind, a.languages, null::smallint as lane, null::bigint as tenant_id
from asked a
join served s using (kind)
where not exists (select from alive n where a.kind = any(n.kinds) and a.languages <@ n.languages)
union all
select t.kind, null, l.lane, t.tenant_id
from troubled t
cross join (values (0::smallint), (1::smallint)) as l(lane)
where (cardinality(%(lanes)s::smallint[]) = 0 or l.lane = any(%(lanes)s))
  and exists (
      select from batchproc.processing_jobs j
      where j.state = 'available' and j.lane = l.lane and j.tenant_id = t.tenant_id and j.kind = t.kind
        and (j.languages is null or j.languages = '{auto}')
      offset 0)
