update batchproc.processing_jobs set result = %s where job_id = %s and claim_id = %s
