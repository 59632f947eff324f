-- Jobs whose time came at once, an hour ago: half of them of the first tenant, the rest of all in turn.
insert into batchproc.processing_jobs (tenant_id, kind, state, run_at, max_attempts)
select case when mod(n, 2) = 0 then t.ids[1] else t.ids[1 + mod(n / 2, cardinality(t.ids))] end, 'bench_later', 'scheduled',
       clock_timestamp() - interval '1 hour', 5
from (select %(tenant_ids)s::bigint[] as ids) t
cross join generate_series(1, %(jobs)s::int) n
