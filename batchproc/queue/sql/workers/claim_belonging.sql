select node_id, campaign_id, run_id from batchproc.processing_jobs where job_id = %s and claim_id = %s
