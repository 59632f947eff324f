-- Jobs of one queue that leave their languages to the tenant; otherwise as gap_by_languages.sql.
with picked as materialized (
    select j.job_id
    from batchproc.processing_jobs j
    where j.state = 'available' and j.lane = %(lane)s and j.tenant_id = %(tenant_id)s and j.kind = %(kind)s
      and j.languages is null and j.job_id <> all(%(skip)s::bigint[])
    limit %(limit)s
)
select j.job_id, j.tenant_id, t.slug, j.document_id, j.languages, t.settings -> 'languages'
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
where j.job_id = any(array(select job_id from picked)) and j.tenant_id = %(tenant_id)s and j.state = 'available'
order by j.job_id
for no key update of j skip locked
