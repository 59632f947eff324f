-- Of the ranges that a run has given up on, by their failure code: those whose document the run tells of once already.
-- The job that joins them does, or the first of those that were given up on.
select r.failure_code, count(*)
from batchproc.processing_jobs r
where r.run_id = %(run_id)s and r.state = 'discarded' and r.range_of is not null
  and r.args ->> 'range' is distinct from 'join'
  and exists (
      select from batchproc.processing_jobs o
      where o.range_of = r.range_of and o.tenant_id = r.tenant_id and o.run_id = r.run_id
        and (o.args ->> 'range' = 'join' and o.state in ('completed', 'discarded')
             or o.state = 'discarded' and o.job_id < r.job_id))
group by r.failure_code
