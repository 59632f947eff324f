-- Of the last run: how many jobs it completed, in how many seconds, and how long at most, and at the 99th of a hundred
-- places, nothing was claimed in between: a claim that waited for something makes such a gap.
with last_run as (
    select started_at, ended_at, started_at - lag(started_at) over (order by started_at) as gap
    from batchproc.job_attempts
    where run_id = (select max(run_id) from batchproc.runs) and outcome = 'completed'
)
select count(*), extract(epoch from max(ended_at) - min(started_at))::float8,
       extract(epoch from max(gap))::float8,
       extract(epoch from percentile_disc(0.99) within group (order by gap))::float8
from last_run
