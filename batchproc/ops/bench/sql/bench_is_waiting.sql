select from batchproc.processing_jobs where job_id = %s and state <> 'completed'
