-- The next jobs of a campaign after the last one seen that were given up on or cancelled. One that was superseded is
-- left to its successor. The joining job of a revision is made anew by its ranges, and a range of one that is over
-- reads nothing.
select j.job_id, j.failure_code, j.state
from batchproc.processing_jobs j
where j.campaign_id = %(campaign_id)s and j.state in ('discarded', 'cancelled') and j.job_id > %(after)s
  and j.state = any(%(states)s::text[])
  and j.failure_code is distinct from 'superseded'
  and (%(failure_codes)s::text[] is null or j.failure_code = any(%(failure_codes)s))
  and (j.range_of is null
       or exists (select from batchproc.ocr_revisions r
                  where r.revision_id = j.range_of and r.tenant_id = j.tenant_id and r.state = 'open'))
order by j.job_id
limit %(limit)s
