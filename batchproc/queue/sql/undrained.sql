-- What keeps a run from being done beside available jobs: its own retries that are due soon, and claims of nodes
-- whose lease has ended, which wait for their rescue.
select
    (select count(*) from batchproc.processing_jobs
     where state = 'scheduled' and run_id = %(run_id)s and failure_code is not null
       and failure_code <> 'storage_unavailable'
       and run_at <= clock_timestamp() + make_interval(secs => %(drain_wait)s)) as retries,
    (select count(*) from batchproc.processing_jobs j
     where j.state = 'running'
       and not exists (select from batchproc.nodes n
                       where n.node_id = j.node_id and n.lease_until > clock_timestamp())) as expired
