-- A live run that may claim what a run of this scope may: one that is exclusive itself, or, for a run that begins, any.
-- A single job that somebody looks at is none. A node that joined again under a new id tells itself which run it has;
-- until it does, it may claim anything.
with active as (
    select e.host, e.pid, e.since, e.run_id, true as exclusive, e.scope
    from batchproc.exclusive_runs e
    where e.holder <> %(holder)s and e.lease_until > clock_timestamp()
    union all
    select n.host, n.pid, coalesce(r.started_at, n.started_at), r.run_id, false, coalesce(r.scope, '{}')
    from batchproc.nodes n
    left join lateral (
        select *
        from batchproc.runs
        where finished_at is null
          and (node_id = n.node_id or run_id = (select run_id from batchproc.node_activity where node_id = n.node_id))
        order by run_id desc
        limit 1
    ) r on true
    where not %(again)s and n.lease_until > clock_timestamp() and not batchproc.run_is_single(coalesce(r.scope, '{}'))
)
select host, pid, since, run_id, exclusive, scope,
       array(select slug from batchproc.tenants
             where coalesce(a.scope -> 'tenant_ids', '[]') @> to_jsonb(tenant_id) order by slug) as tenants
from active a
where not exists (
    -- A part of the scope in which they have nothing in common; an empty one means all.
    select
    from jsonb_each(%(scope)s::jsonb) mine
    where jsonb_array_length(mine.value) > 0 and jsonb_array_length(coalesce(a.scope -> mine.key, '[]')) > 0
      and not exists (select from jsonb_array_elements(mine.value) m
                      join jsonb_array_elements(a.scope -> mine.key) o on o.value = m.value)
)
order by exclusive desc, since
limit 1
