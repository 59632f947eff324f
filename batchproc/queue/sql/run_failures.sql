select t.slug as tenant, j.job_id, j.kind, j.document_id, j.failure_code, d.path,
       d.status as document_status, a.detail
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
left join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
left join lateral (
    select detail from batchproc.job_attempts where job_id = j.job_id order by ended_at desc limit 1
) a on true
where j.run_id = %(run_id)s
  and (j.state = 'discarded' or (j.state = 'completed' and j.kind = 'ocr' and d.status = 'partial'))
order by j.state desc, t.slug, j.job_id
limit %(limit)s
