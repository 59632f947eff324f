-- What keeps a run from being done beside available jobs: its own retries that are due soon and may be claimed then,
-- and claims of nodes whose lease has ended, which wait for their rescue.
select
    (select count(*) from batchproc.processing_jobs j
     where j.state = 'scheduled' and j.run_id = %(run_id)s and j.failure_code is not null
       and j.failure_code <> 'storage_unavailable'
       and j.run_at <= clock_timestamp() + make_interval(secs => %(drain_wait)s)
       and not exists (select from batchproc.kinds k
                       where k.kind = j.kind and (k.paused or coalesce(k.max_running, k.declared_limit) = 0))
       and exists (select from batchproc.tenants t
                   where t.tenant_id = j.tenant_id and not t.paused and t.max_running is distinct from 0
                     and (j.kind <> all(%(language_kinds)s::text[])
                          or (j.languages is null or j.languages <@ %(able)s::text[])
                             and (j.languages <> '{auto}'
                                  or coalesce(t.settings -> 'languages', '[]') <@ to_jsonb(%(able)s::text[])
                                     and (%(has_defaults)s or coalesce(t.settings -> 'languages', '[]') not in ('[]', '["auto"]')))))) as retries,
    (select count(*) from batchproc.processing_jobs j
     where j.state = 'running'
       and not exists (select from batchproc.nodes n
                       where n.node_id = j.node_id and n.lease_until > clock_timestamp())
       and j.job_id <> all(%(skip)s::bigint[])) as expired
