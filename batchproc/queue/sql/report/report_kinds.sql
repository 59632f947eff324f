select kind, count(*) as attempts, sum(seconds) as seconds, count(distinct job_id) as jobs,
       count(*) filter (where became = 'completed') as completed,
       count(*) filter (where became = 'discarded') as discarded,
       count(distinct job_id) filter (where retaken) as retried,
       coalesce(sum(pages), 0) as pages, coalesce(sum(failed_pages), 0) as failed_pages
from report_attempts
group by kind
order by sum(seconds) desc, kind
