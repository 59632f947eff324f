-- What was asked of an attempt that is over, such as to cancel it, does not concern the next. A job of a paused
-- campaign is held, and what was cancelled or given up on before its time waits for that again. A job whose unique key
-- waits again already is left as it is: its successor does the work. Of several with one key that were asked for, the
-- newest is retried. The campaign of a job that needs no retry is told too, if it is still cancelled: an earlier retry may
-- have been killed before it took that back. Not so while a command adds to the campaign, which its cancel is to stop.
with locked as (
    select job_id, tenant_id, kind, unique_key, unique_while_running, campaign_id, state,
           state in ('discarded', 'cancelled') as ended,
           (state = 'cancelled' or failure_code = 'given_up') and run_at > clock_timestamp() as later
    from batchproc.processing_jobs
    where job_id = any(%s)
    order by job_id
    for no key update
), asked as (
    select l.job_id, l.tenant_id, l.state, l.ended, l.later,
           exists (select from batchproc.campaigns c where c.campaign_id = l.campaign_id and c.paused) as paused,
           (select c.campaign_id from batchproc.campaigns c
            where c.campaign_id = l.campaign_id and c.cancelled_at is not null
              and (c.filled_at is not null or l.state not in ('completed', 'discarded'))) as cancelled_campaign,
           l.unique_key is not null and (
               row_number() over (partition by l.ended, l.tenant_id, l.kind, l.unique_key order by l.job_id desc) > 1
               or exists (select from batchproc.processing_jobs s
                          where s.tenant_id = l.tenant_id and s.kind = l.kind and s.unique_key = l.unique_key
                            and (s.state in ('scheduled', 'available')
                                 or (s.state = 'running' and s.unique_while_running and l.unique_while_running))
                         )) as superseded
    from locked l
), retried as (
    update batchproc.processing_jobs j
    set state = case when a.paused then 'held' when a.later then 'scheduled' else 'available' end,
        run_at = case when a.later then j.run_at else clock_timestamp() end,
        attempt = 0, crashes = 0, timeouts = 0, node_losses = 0,
        failure_code = null, result = null, finished_at = null, run_id = null
    from asked a
    where j.job_id = a.job_id and j.tenant_id = a.tenant_id and a.ended and not a.superseded
    returning j.job_id
), unsignalled as (
    delete from batchproc.job_signals s using retried r where s.job_id = r.job_id
)
select a.job_id,
       case when r.job_id is not null then 'retried' when a.ended then 'superseded' else a.state end,
       r.job_id is not null and a.paused as is_held,
       a.cancelled_campaign
from asked a
left join retried r using (job_id)
order by a.job_id
