-- Per tenant in small batches, so that a tenant with a million due jobs neither stalls this nor starves others.
with recursive waiting(tenant_id) as (
    (select tenant_id from batchproc.processing_jobs where state = 'scheduled' order by tenant_id limit 1)
    union all
    select (select j.tenant_id from batchproc.processing_jobs j
            where j.state = 'scheduled' and j.tenant_id > w.tenant_id order by j.tenant_id limit 1)
    from waiting w
    where w.tenant_id is not null
), due as materialized (
    select j.job_id, w.tenant_id
    from waiting w
    cross join lateral (
        -- The time as a subquery: a volatile function itself is no bound for an index scan.
        select job_id from batchproc.processing_jobs
        where state = 'scheduled' and tenant_id = w.tenant_id and run_at <= (select clock_timestamp())
          and job_id <> all(%(skip)s::bigint[])
        order by run_at
        limit %(per_tenant)s
        for no key update skip locked
    ) j
    where w.tenant_id is not null
), promoted as (
    -- Arrays, not the CTE itself: the planner takes that for long and would read the whole table.
    update batchproc.processing_jobs j set state = 'available'
    from unnest(array(select job_id from due), array(select tenant_id from due)) as d(job_id, tenant_id)
    where j.job_id = d.job_id and j.tenant_id = d.tenant_id
    returning j.lane, j.tenant_id, j.kind
)
select distinct lane, tenant_id, kind from promoted
