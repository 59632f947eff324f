update batchproc.campaigns set filled_at = clock_timestamp() where campaign_id = %(campaign_id)s and filled_at is null
