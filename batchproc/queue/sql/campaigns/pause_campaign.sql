-- A cancelled one can be neither paused nor resumed: nothing of it goes on by itself.
update batchproc.campaigns set paused = %(paused)s
where campaign_id = %(campaign_id)s and cancelled_at is null
returning campaign_id
