-- What must hold in any database of batchproc at any moment, whatever was killed before: one row for each violation.
select 'a running job without a claim, or a claim without a running job' as violation, job_id::text as what
from batchproc.processing_jobs
where (state = 'running') <> (claim_id is not null and node_id is not null)
union all
select 'a claim that is held although it was settled', j.job_id::text
from batchproc.processing_jobs j
join batchproc.job_attempts a on a.claim_id = j.claim_id
union all
select 'a final state without its time, or the other way round', job_id::text
from batchproc.processing_jobs
where (state in ('completed', 'discarded', 'cancelled')) <> (finished_at is not null)
union all
select 'a job completed more than once', job_id::text
from batchproc.job_attempts
where outcome = 'completed'
group by job_id
having count(*) > 1
union all
select 'a completed job without its completed attempt', j.job_id::text
from batchproc.processing_jobs j
where j.state = 'completed'
  and not exists (select from batchproc.job_attempts a where a.job_id = j.job_id and a.outcome = 'completed')
union all
select 'a completed attempt of a job that is not completed', j.job_id::text
from batchproc.processing_jobs j
where j.state not in ('completed', 'discarded')  -- discarded: its result could not be stored
  and exists (select from batchproc.job_attempts a where a.job_id = j.job_id and a.outcome = 'completed')
union all
select 'a discarded job without a failure code', job_id::text
from batchproc.processing_jobs
where state = 'discarded' and failure_code is null
union all
select 'a cancelled job under the code of a failure', job_id::text
from batchproc.processing_jobs
where state = 'cancelled' and failure_code <> 'superseded'
union all
select 'a counter below zero or above its budget', job_id::text
from batchproc.processing_jobs
where least(attempt, crashes, timeouts, node_losses) < 0 or attempt > max_attempts
union all
select 'an attempt with the number of no attempt', a.claim_id::text
from batchproc.job_attempts a
where a.number < 1
union all
select 'an attempt that ended before it began', a.claim_id::text
from batchproc.job_attempts a
where a.ended_at < a.started_at
union all
select 'two waiting jobs of one unique key', min(job_id)::text
from batchproc.processing_jobs
where state in ('scheduled', 'available') and unique_key is not null
group by tenant_id, kind, unique_key
having count(*) > 1
union all
select 'two jobs of one unique key where one that runs counts too', min(job_id)::text
from batchproc.processing_jobs
where state in ('scheduled', 'available', 'running') and unique_key is not null and unique_while_running
group by tenant_id, kind, unique_key
having count(*) > 1
union all
select 'a count of ranges that is not theirs', r.revision_id::text
from batchproc.ocr_revisions r
where r.state = 'open' and r.ranges_left <> (
          select count(*) from batchproc.processing_jobs j
          where j.range_of = r.revision_id and j.finished_at is null and j.args ->> 'range' is distinct from 'join')
      -- Until the job that splits it has been settled there is none.
      and exists (select from batchproc.processing_jobs j where j.range_of = r.revision_id)
union all
select 'a range that is left of a complete revision', j.job_id::text
from batchproc.processing_jobs j
join batchproc.ocr_revisions r on r.revision_id = j.range_of
where r.state = 'complete' and r.ranges_left <> 0
union all
-- Exactly, with two exceptions. Usage outlives what a prune has taken, attempts and all. And where a job was retried
-- after it had been discarded, its kind may have discarded more than can be counted. Such a job shows itself by numbers
-- that begin anew: after a failure that used an attempt, or that used up the losses of nodes, the next attempt's number
-- is no higher. (A checkpoint sets numbers back, too.)
select 'usage that does not add up to the attempts', u.tenant_id || ' ' || u.kind
from (select tenant_id, kind, sum(attempts) as attempts, sum(completed) as completed, sum(discarded) as discarded
      from batchproc.usage_daily group by tenant_id, kind) u
full join (
    select j.tenant_id, j.kind, sum(of_job.attempts) as attempts, sum(of_job.completed) as completed,
           count(*) filter (where j.state = 'discarded') as discarded, bool_or(of_job.begun_anew) as begun_anew
    from batchproc.processing_jobs j
    cross join lateral (
        select count(*) as attempts, count(*) filter (where a.outcome = 'completed') as completed,
               coalesce(bool_or(a.outcome = 'failed'
                                and (a.error_class <> 'lease_expired' or a.failure_code = 'poison')
                                and a.number >= coalesce(a.next_number, case j.state when 'discarded' then a.number + 1
                                                                                     when 'running' then j.attempt
                                                                                     else j.attempt + 1 end)),
                        false) as begun_anew
        from (select *, lead(number) over (order by started_at, ended_at) as next_number
              from batchproc.job_attempts where job_id = j.job_id) a
    ) of_job
    group by j.tenant_id, j.kind
) a using (tenant_id, kind)
where coalesce(u.attempts, 0) <> coalesce(a.attempts, 0) or coalesce(u.completed, 0) <> coalesce(a.completed, 0)
   or coalesce(u.discarded, 0) < coalesce(a.discarded, 0)
   or (coalesce(u.discarded, 0) > coalesce(a.discarded, 0) and a.begun_anew is not true)
