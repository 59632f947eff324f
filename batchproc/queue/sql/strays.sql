-- Jobs that a settle, an enqueue or a retry put where they do not belong, because its snapshot was older than the pause
-- of their campaign, the end of that pause, or the request to cancel them; and requests to cancel that came while their
-- job ended, which are to be forgotten. Nearly always none.
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
    select 'release' as wanted, j.job_id
    from campaigns_with_held w
    join batchproc.campaigns c on c.campaign_id = w.campaign_id and not c.paused
    cross join lateral (
        select job_id from batchproc.processing_jobs
        where campaign_id = c.campaign_id and state = 'held' and job_id <> all(%(skip)s::bigint[])
        order by job_id desc
        limit %(limit)s) j
    limit %(limit)s
)
select wanted, job_id from to_cancel
union all
select wanted, job_id from to_hold
union all
select wanted, job_id from to_release
