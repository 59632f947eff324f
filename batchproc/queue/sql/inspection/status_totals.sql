select s.state, coalesce(c.jobs, 0) as jobs
from unnest(array['scheduled', 'available', 'running', 'held', 'completed', 'discarded', 'cancelled'])
     with ordinality as s(state, place)
left join (select state, count(*) as jobs from batchproc.processing_jobs group by state) c on c.state = s.state
order by s.place
