-- Of campaigns that are being cancelled: over where no job waits, is held or runs any more. Where all of them completed
-- before they were reached, nothing was cancelled. Each state has an index of its own; the offset keeps the planner from
-- gathering all that is in it in a hash.
update batchproc.campaigns c
set cancelling = false,
    cancelled_at = case when c.filled_at is null
                          or exists (select from batchproc.processing_jobs j
                                     where j.campaign_id = c.campaign_id and j.state = 'cancelled'
                                       and j.failure_code is distinct from 'superseded' offset 0)
                        then c.cancelled_at end
where c.campaign_id = any(%(campaign_ids)s) and c.cancelling
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state in ('scheduled', 'available') offset 0)
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state = 'held' offset 0)
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state = 'running' offset 0)
returning c.campaign_id
