-- The partial documents are looked for only when the run counted some: no index leads to them.
with failed as (
    select job_id, tenant_id, kind, document_id, failure_code, state
    from batchproc.processing_jobs
    where run_id = %(run_id)s and state = 'discarded'
    union all
    select j.job_id, j.tenant_id, j.kind, j.document_id, null, j.state
    from batchproc.processing_jobs j
    join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id and d.status = 'partial'
    where %(partial)s and j.run_id = %(run_id)s and j.state = 'completed' and j.kind = 'ocr'
)
select t.slug as tenant, f.job_id, f.kind, f.document_id, f.failure_code, d.path,
       d.status as document_status, a.detail
from failed f
join batchproc.tenants t using (tenant_id)
left join batchproc.documents d on d.document_id = f.document_id and d.tenant_id = f.tenant_id
left join lateral (
    select detail from batchproc.job_attempts where job_id = f.job_id order by ended_at desc limit 1
) a on true
order by f.state desc, t.slug, f.job_id
limit %(limit)s
