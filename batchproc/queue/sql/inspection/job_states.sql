select job_id, state from batchproc.processing_jobs where job_id = any(%(job_ids)s) order by job_id
