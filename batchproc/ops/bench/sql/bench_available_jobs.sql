-- Jobs that wait: those of the share (0 to 1) of the first tenant, the rest of all tenants in turn; the kinds in turn.
insert into batchproc.processing_jobs (tenant_id, kind, state, priority, max_attempts)
select case when n <= %(jobs)s * %(share)s::float8 then t.ids[1]
            else t.ids[1 + mod(n / cardinality(t.kinds), cardinality(t.ids))] end,
       t.kinds[1 + mod(n, cardinality(t.kinds))], 'available', %(priority)s, 5
from (select %(tenant_ids)s::bigint[] as ids, %(kinds)s::text[] as kinds) t
cross join generate_series(1, %(jobs)s::int) n
