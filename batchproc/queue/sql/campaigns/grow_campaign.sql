-- One that was cancelled grows no more; the row's lock makes whoever cancels it wait for what is being enqueued.
update batchproc.campaigns
set documents = coalesce(documents, 0) + %(documents)s
where campaign_id = %(campaign_id)s and cancelled_at is null
returning campaign_id
