-- finished_at: when its last job ended, if none is left. Jobs that were pruned are counted apart: of them nothing else is
-- known.
select c.campaign_id, c.command, c.created_at as started_at, clock_timestamp() as now, j.*,
       c.pruned_completed + c.pruned_discarded + c.pruned_cancelled as pruned
from batchproc.campaigns c
cross join lateral (
    select count(*) as jobs,
           count(*) filter (where state in ('scheduled', 'available', 'running', 'held')) as "left",
           count(*) filter (where state = 'completed') as completed,
           count(*) filter (where state = 'discarded') as discarded,
           count(*) filter (where state = 'cancelled') as cancelled,
           case when bool_and(finished_at is not null) then max(finished_at) end as finished_at
    from batchproc.campaign_jobs
    where campaign_id = c.campaign_id
) j
where c.campaign_id = %(campaign_id)s
