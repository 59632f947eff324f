-- The claim as bare as it can be, for the physical limit: nothing is chosen, looked up or remembered.
update batchproc.processing_jobs
set state = 'running', claim_id = %(node_id)s, node_id = %(node_id)s, claimed_at = clock_timestamp()
where job_id = any(array(
    select job_id from batchproc.processing_jobs
    where state = 'available' and lane = 1 and tenant_id = %(tenant_id)s and kind = %(kind)s
    order by priority, job_id
    limit %(count)s
    for no key update skip locked))
