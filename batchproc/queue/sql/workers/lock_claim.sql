-- Not "for update": the first progress row of the job, whose foreign key looks at this row, would wait for it.
select job_id from batchproc.processing_jobs where job_id = %s and claim_id = %s for no key update
