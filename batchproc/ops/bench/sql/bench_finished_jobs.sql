-- Jobs that ended a year ago, one a second, each a few minutes before or after its neighbours; one of fifty discarded.
insert into batchproc.processing_jobs
    (tenant_id, kind, state, attempt, max_attempts, result, created_at, run_at, claimed_at, finished_at)
select t.ids[1 + mod(n, cardinality(t.ids))], 'bench_finished',
       case when mod(n, 50) = 0 then 'discarded' else 'completed' end, 1, 5, '{"pages": 3}', s.started, s.started,
       s.started, s.started + make_interval(secs => 600 * random())
from (select %(tenant_ids)s::bigint[] as ids) t
cross join generate_series(1, %(jobs)s::int) n
cross join lateral (select clock_timestamp() - interval '1 year' + make_interval(secs => n) as started) s
