-- The time from which ages count, and the last job there is: what is enqueued later was not chosen.
select clock_timestamp(), coalesce(max(job_id), 0) from batchproc.processing_jobs
