-- Only while their job is over: a retry has taken back what was asked before it, and what is asked after it counts.
with over as materialized (
    select a.job_id
    from unnest(%(job_ids)s::bigint[]) as a(job_id)
    -- By id alone: the indexes of states would be read for all that is in such a state.
    cross join lateral (select state from batchproc.processing_jobs where job_id = a.job_id limit 1) j
    where j.state in ('completed', 'discarded', 'cancelled')
)
delete from batchproc.job_signals
where job_id = any(array(select job_id from over))
returning job_id
