-- Jobs that failed in a run and are to be tried again, though not yet, and in how many seconds the first of them is due
-- that the run waits for, by the same conditions as in undrained.sql; null: it waits for none.
select count(*) as retries,
       extract(epoch from min(j.run_at) filter (
           where j.run_at <= clock_timestamp() + make_interval(secs => %(drain_wait)s)
             and not exists (select from batchproc.kinds k
                             where k.kind = j.kind and (k.paused or coalesce(k.max_running, k.declared_limit) = 0))
             and exists (select from batchproc.tenants t
                         where t.tenant_id = j.tenant_id and not t.paused and t.max_running is distinct from 0
                           and (j.kind <> all(%(language_kinds)s::text[])
                                or (j.languages is null or j.languages <@ %(able)s::text[])
                                   and (j.languages <> '{auto}'
                                        or coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
                                           and (%(has_defaults)s
                                                or coalesce(t.settings -> 'languages', '[]')
                                                   not in ('[]', '["auto"]'))))))
         - clock_timestamp())::float8 as next_seconds
from batchproc.processing_jobs j
where j.state = 'scheduled' and j.run_id = %(run_id)s and j.failure_code is not null
  and j.failure_code <> 'storage_unavailable'
