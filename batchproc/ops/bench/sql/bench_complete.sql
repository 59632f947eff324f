-- The completion of what bench_take.sql took.
update batchproc.processing_jobs
set state = 'completed', claim_id = null, node_id = null, finished_at = clock_timestamp()
where node_id = %(node_id)s and state = 'running'
