-- As cancel_waiting.sql, of jobs whose campaign is being cancelled; one that is retried meanwhile wants them to run.
with locked as (
    select j.job_id, j.tenant_id
    from batchproc.processing_jobs j
    join batchproc.campaigns c on c.campaign_id = j.campaign_id
    where j.job_id = any(%(job_ids)s) and j.state in ('scheduled', 'available', 'held')
      and (c.cancelling or (j.state = 'held' and c.cancelled_at is not null))
    order by j.job_id
    for no key update of j skip locked
), cancelled as (
    update batchproc.processing_jobs j
    set state = 'cancelled', failure_code = null, finished_at = clock_timestamp()
    from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
    where j.job_id = l.job_id and j.tenant_id = l.tenant_id
    returning j.job_id
), unsignalled as (
    delete from batchproc.job_signals s using cancelled c where s.job_id = c.job_id
)
select job_id from cancelled
