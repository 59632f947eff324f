-- Of campaigns of which jobs were to be retried: no longer cancelled where none is left that could be retried, as in
-- campaign_failed.sql. Retries begin with the oldest: the newest tells soonest that they are not at their end.
update batchproc.campaigns c
set cancelled_at = null
where c.campaign_id = any(%(campaign_ids)s) and c.cancelled_at is not null and not c.cancelling
  and not exists (select from (
        select job_id from batchproc.processing_jobs j
        where j.campaign_id = c.campaign_id and j.state = 'cancelled'
          and j.state in ('discarded', 'cancelled')
          and j.failure_code is distinct from 'superseded'
          and (j.range_of is null
               or exists (select from batchproc.ocr_revisions r
                          where r.revision_id = j.range_of and r.tenant_id = j.tenant_id and r.state = 'open'))
        order by j.job_id desc
        limit 1) newest)
