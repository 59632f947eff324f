update batchproc.campaigns set paused = %(paused)s where campaign_id = %(campaign_id)s returning campaign_id
