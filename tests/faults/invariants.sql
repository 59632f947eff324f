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
select 'usage that does not add up to the attempts', u.tenant_id || ' ' || u.kind
from (select tenant_id, kind, sum(attempts) as attempts, sum(completed) as completed
      from batchproc.usage_daily group by tenant_id, kind) u
full join (select a.tenant_id, j.kind, count(*) as attempts, count(*) filter (where a.outcome = 'completed') as completed
           from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id, tenant_id)
           group by a.tenant_id, j.kind) a using (tenant_id, kind)
where coalesce(u.attempts, 0) <> coalesce(a.attempts, 0) or coalesce(u.completed, 0) < coalesce(a.completed, 0)
