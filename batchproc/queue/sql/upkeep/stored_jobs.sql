-- What waits for a storage and was tried last before this run began, or so many seconds ago; a few of each tenant, going
-- on behind a tenant. As due_by_tenant.sql.
with recursive waiting(tenant_id) as (
    (select tenant_id from batchproc.processing_jobs
     where state = 'scheduled' and failure_code = 'storage_unavailable' and tenant_id > %(after)s
     order by tenant_id limit 1)
    union all
    select (select j.tenant_id from batchproc.processing_jobs j
            where j.state = 'scheduled' and j.failure_code = 'storage_unavailable' and j.tenant_id > w.tenant_id
            order by j.tenant_id limit 1)
    from waiting w
    where w.tenant_id is not null
)
select w.tenant_id, j.job_id
from waiting w
cross join lateral (
    select job_id from batchproc.processing_jobs
    where state = 'scheduled' and failure_code = 'storage_unavailable' and tenant_id = w.tenant_id
      and claimed_at < (select case when %(pause)s::float8 is null then r.started_at
                                    else clock_timestamp() - make_interval(secs => %(pause)s) end
                        from batchproc.runs r where r.run_id = %(run_id)s)
      and job_id <> all(%(skip)s::bigint[])
    order by claimed_at
    limit %(per_tenant)s
) j
where w.tenant_id is not null
limit %(limit)s
