select from batchproc.campaigns where campaign_id = %(campaign_id)s
