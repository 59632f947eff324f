-- Of campaigns that are being cancelled: over where no job waits, is held or runs any more. Each state has an index of
-- its own; the offset keeps the planner from gathering all that is in it in a hash.
update batchproc.campaigns c
set cancelling = false
where c.campaign_id = any(%(campaign_ids)s) and c.cancelling
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state in ('scheduled', 'available') offset 0)
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state = 'held' offset 0)
  and not exists (select from batchproc.processing_jobs j
                  where j.campaign_id = c.campaign_id and j.state = 'running' offset 0)
returning c.campaign_id
