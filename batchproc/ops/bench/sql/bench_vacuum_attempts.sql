vacuum analyze batchproc.job_attempts
