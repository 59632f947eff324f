select job_id from batchproc.processing_jobs where job_id = %s and claim_id = %s
