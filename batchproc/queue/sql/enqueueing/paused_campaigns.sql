select campaign_id from batchproc.campaigns where paused
