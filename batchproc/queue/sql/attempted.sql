select claim_id from batchproc.job_attempts where claim_id = any(%s)
