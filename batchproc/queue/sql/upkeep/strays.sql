-- Jobs that a settle, an enqueue or a retry put where they do not belong, because its snapshot was older than the pause
-- of their campaign, the end of that pause, or the request to cancel them; and requests to cancel that came while their
-- job ended, which are to be forgotten. And what a cancel of a campaign that was cut short had not reached: waiting jobs
-- ("end"), running ones that nobody asked to stop ("stop"), and campaigns of which nothing is left ("over", by their
-- ids). Nearly always none.
with recursive campaigns_with_held(campaign_id) as (
    (select campaign_id from batchproc.processing_jobs
     where state = 'held' and campaign_id is not null order by campaign_id limit 1)
    union all
    select (select j.campaign_id from batchproc.processing_jobs j
            where j.state = 'held' and j.campaign_id is not null and j.campaign_id > w.campaign_id
            order by j.campaign_id limit 1)
    from campaigns_with_held w
    where w.campaign_id is not null
), to_cancel as (
    select case when j.state in ('scheduled', 'available', 'held') then 'cancel' else 'forget' end as wanted, s.job_id
    from batchproc.job_signals s
    cross join lateral (
        select j.state from batchproc.processing_jobs j
        where j.job_id = s.job_id and j.state <> 'running'
        limit 1) j
    where s.cancel_requested_at is not null and s.job_id <> all(%(skip)s::bigint[])
    order by s.job_id
    limit %(limit)s
), to_hold as (
    select 'hold' as wanted, j.job_id
    from batchproc.campaigns c
    cross join lateral (
        select job_id from batchproc.processing_jobs
        where campaign_id = c.campaign_id and state in ('scheduled', 'available') and job_id <> all(%(skip)s::bigint[])
        order by job_id
        limit %(limit)s) j
    where c.paused
    limit %(limit)s
), to_release as (
    select case when c.cancelled_at is null then 'release' else 'end' end as wanted, j.job_id
    from campaigns_with_held w
    join batchproc.campaigns c on c.campaign_id = w.campaign_id and not c.paused
    cross join lateral (
        select job_id from batchproc.processing_jobs
        where campaign_id = c.campaign_id and state = 'held' and job_id <> all(%(skip)s::bigint[])
        order by job_id desc
        limit %(limit)s) j
    limit %(limit)s
), to_end as (
    select 'end' as wanted, j.job_id
    from batchproc.campaigns c
    cross join lateral (
        select job_id from batchproc.processing_jobs
        where campaign_id = c.campaign_id and state in ('scheduled', 'available') and job_id <> all(%(skip)s::bigint[])
        order by job_id
        limit %(limit)s) j
    where c.cancelling
    limit %(limit)s
), to_stop as (
    select 'stop' as wanted, j.job_id
    from batchproc.campaigns c
    join batchproc.processing_jobs j on j.campaign_id = c.campaign_id and j.state = 'running'
    where c.cancelling and j.job_id <> all(%(skip)s::bigint[])
      and not exists (select from batchproc.job_signals s
                      where s.job_id = j.job_id and s.cancel_requested_at is not null)
    limit %(limit)s
), over as (
    select 'over' as wanted, c.campaign_id
    from batchproc.campaigns c
    -- As in finish_cancel.sql.
    where c.cancelling
      and not exists (select from batchproc.processing_jobs j
                      where j.campaign_id = c.campaign_id and j.state in ('scheduled', 'available') offset 0)
      and not exists (select from batchproc.processing_jobs j
                      where j.campaign_id = c.campaign_id and j.state = 'held' offset 0)
      and not exists (select from batchproc.processing_jobs j
                      where j.campaign_id = c.campaign_id and j.state = 'running' offset 0)
    limit %(limit)s
)
select wanted, job_id from to_cancel
union all
select wanted, job_id from to_hold
union all
select wanted, job_id from to_release
union all
select wanted, job_id from to_end
union all
select wanted, job_id from to_stop
union all
select wanted, campaign_id from over
