-- Writes only when there is something to set back: a checkpoint is taken for every page.
update batchproc.processing_jobs
set attempt = least(attempt, 1), crashes = least(crashes, 1), timeouts = least(timeouts, 1)
where job_id = %s and claim_id = %s and (attempt > 1 or crashes > 1 or timeouts > 1)
