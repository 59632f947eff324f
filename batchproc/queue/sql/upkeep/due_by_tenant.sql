-- A few of the due jobs of each tenant, going on behind a tenant: for when more are due than one statement may take.
-- The limit ends the walk over the tenants too, so there is no order at the end: that would have all of them looked at.
with recursive waiting(tenant_id) as (
    (select tenant_id from batchproc.processing_jobs
     where state = 'scheduled' and tenant_id > %(after)s order by tenant_id limit 1)
    union all
    select (select j.tenant_id from batchproc.processing_jobs j
            where j.state = 'scheduled' and j.tenant_id > w.tenant_id order by j.tenant_id limit 1)
    from waiting w
    where w.tenant_id is not null
)
select w.tenant_id, j.job_id
from waiting w
cross join lateral (
    select job_id from batchproc.processing_jobs
    where state = 'scheduled' and tenant_id = w.tenant_id and run_at <= (select clock_timestamp())
      and job_id <> all(%(skip)s::bigint[])
    order by run_at
    limit %(per_tenant)s
) j
where w.tenant_id is not null
limit %(limit)s
