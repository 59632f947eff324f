-- How many documents of a campaign came to an end lately, and over which time: from the first of them, or from the
-- beginning of the window. Of very many jobs that have ended only the latest are looked at. What was cancelled is no
-- work that was done: hundreds a second would tell that the rest is done in a moment.
with latest as materialized (
    select campaign_id, document_id, finished_at
    from batchproc.processing_jobs
    where state in ('completed', 'discarded')
      and finished_at > clock_timestamp() - make_interval(secs => %(window)s)
    order by finished_at desc, job_id desc
    limit %(most)s
)
select count(distinct l.document_id) as documents,
       extract(epoch from clock_timestamp() - min(l.finished_at))::float8 as seconds
from latest l
where l.campaign_id = %(campaign_id)s
  and not exists (select from batchproc.processing_jobs j
                  where j.document_id = l.document_id and j.campaign_id = l.campaign_id
                    and (j.state in ('scheduled', 'available', 'running', 'held')
                         or j.state = 'cancelled' and j.failure_code is distinct from 'superseded'))
