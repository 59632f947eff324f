-- What became of the jobs. A claim is settled twice when two updates ended it, a job when it reached its end twice or
-- was touched after it.
select
    (select count(*) from batchproc.processing_jobs) as jobs,
    (select count(*) from batchproc.processing_jobs where state = 'completed') as completed,
    (select count(*) from batchproc.processing_jobs
     where state in ('scheduled', 'available', 'running', 'held')) as unfinished,
    (select count(*) from (select from public.chaos_settles group by claim_id having count(*) > 1) c)
    + (select count(*) from (select from public.chaos_settles
                             where new_state in ('completed', 'discarded', 'cancelled')
                             group by job_id having count(*) > 1) j) as settled_twice,
    (select count(*) from public.chaos_settles) as settles,
    (select count(*) from batchproc.job_attempts) as attempts
