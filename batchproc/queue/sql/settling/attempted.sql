select claim_id, outcome, error_class, failure_code, worker_pid from batchproc.job_attempts where claim_id = any(%s)
