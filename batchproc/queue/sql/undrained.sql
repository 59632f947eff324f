-- What keeps a run from being done beside available jobs: its own retries that are due soon and may be claimed then,
-- and claims of nodes whose lease has ended, which wait for their rescue.
select
    (select count(*) from batchproc.processing_jobs j
     where j.state = 'scheduled' and j.run_id = %(run_id)s and j.failure_code is not null
       and j.failure_code <> 'storage_unavailable'
       and j.run_at <= clock_timestamp() + make_interval(secs => %(drain_wait)s)
       and not exists (select from batchproc.kinds k where k.kind = j.kind and k.paused)
       and not exists (select from batchproc.tenants t where t.tenant_id = j.tenant_id and t.paused)) as retries,
    (select count(*) from batchproc.processing_jobs j
     where j.state = 'running'
       and not exists (select from batchproc.nodes n
                       where n.node_id = j.node_id and n.lease_until > clock_timestamp())
       and j.job_id <> all(%(skip)s::bigint[])) as expired
