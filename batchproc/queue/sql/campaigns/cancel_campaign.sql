-- A pause ends with it: what is retried later shall run. What it holds is released no more, but cancelled.
update batchproc.campaigns
set cancelled_at = case when %(cancelled)s then coalesce(cancelled_at, clock_timestamp()) end,
    cancelling = %(cancelled)s,
    paused = paused and not %(cancelled)s
where campaign_id = %(campaign_id)s
returning campaign_id
