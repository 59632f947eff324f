-- When nights ended, and when the last did with 0 or 1: it did what there was to do. Those that were for some tenants,
-- kinds or a lane alone stand for themselves.
with ended as (
    select finished_at, exit_code, batchproc.run_covers(scope, '{}') as whole
    from batchproc.runs
    where batchproc.run_covers(scope, scope) and finished_at is not null
    order by run_id desc
    limit 1000
)
select whole, extract(epoch from max(finished_at))::float8 as ended_at,
       extract(epoch from max(finished_at) filter (where exit_code in (0, 1)))::float8 as good_at,
       (array_agg(exit_code order by finished_at desc))[1] as exit_code
from ended
group by whole
