select range_of from batchproc.processing_jobs where job_id = %s and claim_id = %s
